"""Gathers what many callers ask in one turn of the event loop into one call to Redis."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Generic, TypeVar

from busload_shared.errors import BusloadError

Item = TypeVar("Item")
Reply = TypeVar("Reply")

AT_MOST = 128
"""Items in one call."""

_HEAVIEST_CALL = 8 * 1024 * 1024


def _weightless(_: object) -> int:
    return 0


class Turnstile(Generic[Item, Reply]):
    """Calls `call` with up to 128 items, one call at a time: order is kept, and a slow Redis makes larger calls.

    `weigh` gives an item's bytes; a call holds 8 MiB unless one item alone is heavier. When a call fails, all who
    stood in line before it began fail with it: their patience is used up too.
    """

    def __init__(
        self,
        call: Callable[[list[Item]], Awaitable[Sequence[Reply | BusloadError]]],
        *,
        weigh: Callable[[Item], int] = _weightless,
    ) -> None:
        self._call = call
        self._weigh = weigh
        self._line: deque[tuple[Item, Callable[[Reply | BusloadError], None]]] = deque()
        self._task: asyncio.Task[None] | None = None

    def put(self, item: Item, told: Callable[[Reply | BusloadError], None]) -> None:
        """Stand in line; `told` is called once, with the reply or with what went wrong."""
        self._line.append((item, told))
        if self._task is None:  # its first step comes after all that are ready now have put theirs
            self._task = asyncio.get_running_loop().create_task(self._drain())

    def ask(self, item: Item) -> asyncio.Future[Reply]:
        """The reply as a future. It raises what the call raised."""
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self.put(item, partial(_settle, future))
        return future

    async def close(self, error: BusloadError) -> None:
        """Let those in line pass if Redis lets them; tell `error` to those it does not."""
        if self._task is not None:
            await asyncio.wait([self._task])
        while self._line:
            self._line.popleft()[1](error)

    async def _drain(self) -> None:
        try:
            while self._line:
                await self._pass(self._take())
        finally:
            self._task = None

    def _take(self) -> list[tuple[Item, Callable[[Reply | BusloadError], None]]]:
        line, weigh = self._line, self._weigh
        taken = [line.popleft()]
        weight = weigh(taken[0][0])
        while line and len(taken) < AT_MOST:
            weight += weigh(line[0][0])
            if weight > _HEAVIEST_CALL:
                break
            taken.append(line.popleft())
        return taken

    async def _pass(self, taken: list[tuple[Item, Callable[[Reply | BusloadError], None]]]) -> None:
        behind = len(self._line)
        try:
            replies = await self._call([item for item, _ in taken])
        except Exception as error:
            taken += [self._line.popleft() for _ in range(behind)]
            reason = str(error) if isinstance(error, BusloadError) else repr(error)
            kind = type(error) if isinstance(error, BusloadError) else BusloadError
            for _, told in taken:
                told(kind(reason))
            return
        for (_, told), reply in zip(taken, replies, strict=True):
            told(reply)


def _settle(future: asyncio.Future[Reply], reply: Reply | BusloadError) -> None:
    if future.done():
        return
    if isinstance(reply, BusloadError):
        future.set_exception(reply)
    else:
        future.set_result(reply)
