"""Ends background tasks for sure."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

AGAIN_S = 0.1


async def end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel the tasks and return when all have ended.

    One cancel is not enough: redis-py sends inside `asyncio.wait_for`, which before Python 3.12 can swallow it.
    """
    waiting = set(tasks)
    while waiting:
        for task in waiting:
            task.cancel()
        ended, waiting = await asyncio.wait(waiting, timeout=AGAIN_S)
        for task in ended:
            task.cancelled() or task.exception()  # looked at, so that asyncio does not complain of it later
