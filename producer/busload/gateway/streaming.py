"""An answer as server-sent events. Text comes when its row has ended: a comment shows life until then."""

from __future__ import annotations

import asyncio
import time

from busload_shared.errors import BusloadError
from busload_shared.result import Result

from ..openai_api import Refusal, as_chunks, placed, used_by
from .exchange import Exchange, json_of
from .refused import CallerGone, refusal_of
from .waiting import Passenger


class Streaming:
    """Streams the results of one call. What is refused before the first sign of life gets its own HTTP status."""

    def __init__(self, exchange: Exchange, passenger: Passenger, model: str, *, id: str, include_usage: bool) -> None:
        self._exchange = exchange
        self._passenger = passenger
        self._model = model
        self._id = id
        self._include_usage = include_usage
        self._created = int(time.time())
        self._open = False

    async def run(self, *, keep_alive_s: float) -> None:
        """Send each row as it ends, and a comment every `keep_alive_s` seconds meanwhile. Raises CallerGone."""
        rows = self._passenger.board()
        gone = asyncio.create_task(self._exchange.gone())
        try:
            await self._follow(rows, gone, keep_alive_s)
            await self._finish([row.result() for row in rows])
        except CallerGone:
            await self._passenger.leave()
            raise
        except BusloadError as error:
            await self._passenger.failed_with(error)
            await self._refuse(refusal_of(error))
        except asyncio.CancelledError:
            self._passenger.goes_on()
            raise
        finally:
            for task in (gone, *rows):
                task.cancel()

    async def _follow(self, rows: list[asyncio.Task[Result]], gone: asyncio.Task[None], keep_alive_s: float) -> None:
        places = {row: place for place, row in enumerate(rows)}
        while places:
            ended, _ = await asyncio.wait({*places, gone}, timeout=keep_alive_s, return_when=asyncio.FIRST_COMPLETED)
            for row in [row for row in places if row in ended]:
                await self._tell(places.pop(row), row.result())
            if places and gone in ended:
                raise CallerGone("the caller left while his request was on its way")
            if not ended:
                await self._begin()
                await self._exchange.comment(b"waiting")

    async def _tell(self, place: int, result: Result) -> None:
        await self._begin()
        notes, request = self._exchange.notes, self._passenger.requests[place]
        if result.usage is not None:
            notes.tokens = (notes.tokens or 0) + result.usage.completion_tokens
        await self._send(placed(result, place, id=self._id, n=request.n), include_usage=False)

    async def _finish(self, results: list[Result]) -> None:
        if self._include_usage:
            used = {"id": self._id, "outputs": (), "usage": used_by(results)}
            await self._send(results[0].model_copy(update=used), include_usage=True)
        await self._exchange.end()

    async def _send(self, result: Result, *, include_usage: bool) -> None:
        chunks = as_chunks(
            self._exchange.path,
            result,
            model=self._model,
            created=self._created,
            include_usage=include_usage,
            top_logprobs=self._passenger.requests[0].logprobs,
        )
        for chunk in chunks:
            await self._exchange.event(json_of(chunk))

    async def _begin(self) -> None:
        if not self._open:
            self._open = True
            await self._exchange.open_events()

    async def _refuse(self, refusal: Refusal) -> None:
        if not self._open:
            await self._exchange.refuse(refusal)
            return
        self._exchange.notes.code = refusal.detail.code
        await self._exchange.event(json_of(refusal.body))
        await self._exchange.end()
