"""Waiting in tests: for something to become true, never for a fixed time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def wait_until(true: Callable[[], Awaitable[T]], *, timeout_s: float = 20.0, what: str = "") -> T:
    """Ask every few ms until the answer is truthy, and return it."""
    give_up = time.monotonic() + timeout_s
    while not (answer := await true()):
        assert time.monotonic() < give_up, f"not within {timeout_s} s: {what or true}"
        await asyncio.sleep(0.005)
    return answer
