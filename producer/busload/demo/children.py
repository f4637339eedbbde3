"""Processes the demo starts: each ends with the demo, however that ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_DIE_WITH_PARENT = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""
"""Asks the kernel to kill this process when its parent dies (1 is PR_SET_PDEATHSIG), then becomes the command."""


def start_child(command: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start the command with its output in `log`, in a session of its own: Ctrl-C reaches the demo alone.

    Call it from the main thread: the kernel counts the death of the starting thread as the parent's.
    """
    guarded = [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid()), *command]
    with log.open("ab") as output:
        return subprocess.Popen(
            guarded, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env, start_new_session=True
        )


def stop_child(process: subprocess.Popen[bytes], *, grace_s: float) -> None:
    """Ask it to end, wait `grace_s` seconds, then kill it and what is left of its session."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        process.wait(grace_s)
    except subprocess.TimeoutExpired:
        pass
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def tail(log: Path, lines: int = 20) -> str:
    """The last lines of a log; empty when there is none."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
