"""Waiting for a call's results as long as the caller does."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Final

from busload_shared.errors import BusloadError, BusloadUnavailable, ResultTimeout
from busload_shared.request import Request
from busload_shared.result import Result

from .. import AsyncClient
from ..openai_api import failed
from .exchange import Exchange
from .refused import CallerGone, Refused

log: Final = logging.getLogger("busload.gateway")

WATCH_AFTER_S = 0.1
"""A caller that leaves sooner is noticed then: short calls are spared a task each."""


class Passenger:
    """The requests of one call on their way: one for each prompt. `keeps` is for one whose caller may come again under
    the same id: nothing of it is cancelled when he leaves, his time is over, or one of them failed."""

    def __init__(self, client: AsyncClient, requests: tuple[Request, ...], *, timeout_s: float, keeps: bool) -> None:
        self.requests: tuple[Request, ...] = requests
        self._client = client
        self._timeout_s = timeout_s
        self._keeps = keeps
        self._under_way: dict[str, None] = {}
        self._rows: list[asyncio.Task[Result]] = []

    def board(self) -> list[asyncio.Task[Result]]:
        """Submit all together. Each task raises what `AsyncClient.generate` raises, or Refused for a result that is no
        success; then, or when the caller has left, `leave`."""
        self._rows = [asyncio.create_task(self._row(request)) for request in self.requests]
        return self._rows

    async def results(self) -> list[Result]:
        """Submit all and wait for them. Raises the first error there is; nobody waits for the others then."""
        try:
            if len(self.requests) == 1:
                return [await self._row(self.requests[0])]
            return await asyncio.gather(*self.board())
        except BusloadError as error:
            await self.failed_with(error)
            raise
        finally:
            for row in self._rows:
                row.cancel()

    async def results_while_there(self, exchange: Exchange) -> list[Result]:
        """The same, as long as the caller is there. Raises CallerGone when he left."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        watch = _Watch(exchange, task)
        timer = loop.call_later(WATCH_AFTER_S, watch.start)
        try:
            return await self.results()
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
        """The gateway stops, and the requests do not: say which they are."""
        for request_id in self._under_way:
            log.info("still on its way: request %s", request_id)

    async def failed_with(self, error: BusloadError) -> None:
        """One of them failed, and so the call did."""
        if not isinstance(error, BusloadUnavailable):  # nobody could be told
            await self.leave()

    async def leave(self) -> None:
        """Nobody waits any more: cancel what is under way, unless its caller may come again."""
        for row in self._rows:
            row.cancel()
        await asyncio.gather(*self._rows, return_exceptions=True)
        if not self._keeps:
            with suppress(BusloadError):  # Redis is away: nobody reads the results, which expire
                await asyncio.gather(*map(self._client.cancel, self._under_way))

    async def _row(self, request: Request) -> Result:
        self._under_way[request.id] = None
        try:
            result = await self._client.generate(request, timeout_s=self._timeout_s)
        except ResultTimeout:
            raise
        except BusloadError:
            del self._under_way[request.id]
            raise
        del self._under_way[request.id]
        if (refusal := failed(result)) is not None:
            raise Refused(refusal)
        return result


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
