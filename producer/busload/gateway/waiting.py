"""Waiting for a result as long as the caller does."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Final

from busload_shared.errors import BusloadError, ResultTimeout
from busload_shared.request import Request
from busload_shared.result import Result

from .. import AsyncClient
from .exchange import Exchange
from .refused import CallerGone

log: Final = logging.getLogger("busload.gateway")

WATCH_AFTER_S = 0.1
"""A caller that leaves sooner is noticed then: short calls are spared a task each."""


class Passenger:
    """One request on its way. `keeps` is for one whose caller may come again under the same id: it is not cancelled
    when he leaves or his time is over."""

    def __init__(self, client: AsyncClient, request: Request, *, timeout_s: float, keeps: bool) -> None:
        self.request = request
        self._client = client
        self._timeout_s = timeout_s
        self._keeps = keeps

    async def result(self) -> Result:
        """Submit and wait. Raises what `AsyncClient.generate` raises; out of time, the request is cancelled."""
        try:
            return await self._client.generate(self.request, timeout_s=self._timeout_s)
        except ResultTimeout:
            await self.leave()
            raise

    async def result_while_there(self, exchange: Exchange) -> Result:
        """The same, as long as the caller is there. Raises CallerGone when he left."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        watch = _Watch(exchange, task)
        timer = loop.call_later(WATCH_AFTER_S, watch.start)
        try:
            return await self.result()
        except asyncio.CancelledError:
            if not watch.saw_him_leave or task.uncancel():
                self.goes_on()
                raise
        finally:
            timer.cancel()
            watch.stop()
        await self.leave()
        raise CallerGone("the caller left while his request was on its way")

    def goes_on(self) -> None:
        """The gateway stops, and the request does not: say which it is."""
        log.info("still on its way: request %s", self.request.id)

    async def leave(self) -> None:
        """The caller does not wait any more: cancel his request, unless he may come again."""
        if not self._keeps:
            with suppress(BusloadError):  # Redis is away: nobody reads the result, which expires
                await self._client.cancel(self.request.id)


class _Watch:
    def __init__(self, exchange: Exchange, task: asyncio.Task[object]) -> None:
        self.saw_him_leave = False
        self._exchange = exchange
        self._waiting = task
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._look())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _look(self) -> None:
        await self._exchange.gone()
        self.saw_him_leave = True
        self._waiting.cancel()
