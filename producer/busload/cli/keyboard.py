"""Keys pressed while a live picture is shown."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quit_key() -> Iterator[asyncio.Event]:
    """An event that is set when q is pressed. Without a terminal on stdin it never is. Restores the terminal."""
    pressed = asyncio.Event()
    if not sys.stdin.isatty():
        yield pressed
        return
    import termios  # not on Windows
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    loop = asyncio.get_running_loop()

    def read() -> None:
        keys = os.read(descriptor, 64)
        if not keys:
            loop.remove_reader(descriptor)
        elif b"q" in keys.lower():
            pressed.set()

    tty.setcbreak(descriptor)
    loop.add_reader(descriptor, read)
    try:
        yield pressed
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
