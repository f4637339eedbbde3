"""An answer as server-sent events. Text comes when its row has ended: a comment shows life until then."""

from __future__ import annotations

import asyncio
import time

from busload_shared.errors import BusloadError
from busload_shared.result import Result

from ..openai_api import Refusal, as_chunks, as_refusal, failed
from .exchange import Exchange, json_of
from .refused import CallerGone
from .waiting import Passenger


class Streaming:
    """Streams one request's result. What is refused before the first sign of life gets its own HTTP status."""

    def __init__(self, exchange: Exchange, passenger: Passenger, model: str, include_usage: bool) -> None:
        self._exchange = exchange
        self._passenger = passenger
        self._model = model
        self._include_usage = include_usage
        self._open = False

    async def run(self, *, keep_alive_s: float) -> None:
        """Wait, and send a comment every `keep_alive_s` seconds meanwhile. Raises CallerGone."""
        answer = asyncio.create_task(self._passenger.result())
        gone = asyncio.create_task(self._exchange.gone())
        try:
            while not answer.done():
                await asyncio.wait({answer, gone}, timeout=keep_alive_s, return_when=asyncio.FIRST_COMPLETED)
                if gone.done() and not answer.done():
                    await self._left(answer)
                if not answer.done():
                    await self._show_life()
            await self._end_with(answer)
        except asyncio.CancelledError:
            self._passenger.goes_on()
            raise
        finally:
            answer.cancel()
            gone.cancel()

    async def _left(self, answer: asyncio.Task[Result]) -> None:
        answer.cancel()
        await asyncio.wait({answer})
        await self._passenger.leave()
        raise CallerGone("the caller left while his request was on its way")

    async def _show_life(self) -> None:
        await self._begin()
        await self._exchange.comment(b"waiting")

    async def _begin(self) -> None:
        if not self._open:
            self._open = True
            name = self._passenger.request.id.encode("utf-8", "replace")
            await self._exchange.open_events((b"x-request-id", name))

    async def _end_with(self, answer: asyncio.Task[Result]) -> None:
        try:
            result = answer.result()
        except BusloadError as error:
            await self._refuse(as_refusal(error))
            return
        if (refusal := failed(result)) is not None:
            await self._refuse(refusal)
            return
        await self._begin()
        if result.usage is not None:
            self._exchange.notes.tokens = result.usage.completion_tokens
        chunks = as_chunks(
            self._exchange.path,
            result,
            model=self._model,
            created=int(time.time()),
            include_usage=self._include_usage,
            top_logprobs=self._passenger.request.logprobs,
        )
        for chunk in chunks:
            await self._exchange.event(json_of(chunk))
        await self._exchange.end()

    async def _refuse(self, refusal: Refusal) -> None:
        if not self._open:
            name = self._passenger.request.id.encode("utf-8", "replace")
            await self._exchange.refuse(refusal, (b"x-request-id", name))
            return
        self._exchange.notes.code = refusal.detail.code
        await self._exchange.event(json_of(refusal.body))
        await self._exchange.end()
