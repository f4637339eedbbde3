"""What the worker's loop does not wait for: answers on their way, an engine that is being killed."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from .ending import end


class Background:
    """Tasks that end by themselves. None is expected to fail: `watch` tells the worker when one has."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed: asyncio.Event = asyncio.Event()
        self._error: BaseException | None = None

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin this."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._error = error
            self._failed.set()

    async def watch(self) -> None:
        """Until one has failed. Raises what it raised."""
        await self._failed.wait()
        assert self._error is not None
        raise self._error

    @property
    def size(self) -> int:
        """How many have not ended."""
        return len(self._tasks)

    async def down_to(self, size: int) -> None:
        """Until no more than this are left."""
        while self.size > size:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)

    async def end(self) -> None:
        """Cancel what is left of them."""
        await end(self._tasks)
