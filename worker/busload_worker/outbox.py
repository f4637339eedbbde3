"""Carries a batch's answers to Redis, in chunks, while the batch still runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from busload_shared.errors import BusloadUnavailable
from busload_shared.queue import Queue
from busload_shared.replies import Delivery

from .engine_first import EngineFirst
from .logs import fields

logger = logging.getLogger("busload.outbox")

CHUNK = 64
"""Most rows of one call: it keeps Redis busy for well under a millisecond."""

AGAIN_S = 0.5

Answer = Callable[[], Delivery]
"""Packs an answer when it leaves, not when its row ends: the engine may want its next batch first."""


def packed(answer: Delivery) -> Answer:
    """One that is packed already."""
    return lambda: answer


class Outbox:
    """The answers of one batch. An answer is kept and tried again until Redis takes or refuses it, so that an
    outage costs time, not work; after a lapsed lease Redis refuses, and the batch's next holder answers. `delivered`
    is told which were written."""

    def __init__(self, queue: Queue, batch: str, *, ttl_s: float, engine_first: EngineFirst) -> None:
        self.delivered: Callable[[Sequence[Delivery], Sequence[bool]], None] | None = None
        self._queue = queue
        self._batch = batch
        self._ttl_s = ttl_s
        self._engine_first = engine_first
        self._waiting: list[Answer] = []
        self._pump: asyncio.Task[None] | None = None

    def post(self, answers: Sequence[Answer]) -> None:
        """Take answers; they leave at the end of this turn of the event loop, but for the engine's next batch."""
        self._waiting += answers
        if self._waiting and (self._pump is None or self._pump.done()):
            self._pump = asyncio.create_task(self._send_all())

    async def flushed(self) -> None:
        """Wait until every posted answer is in Redis or refused."""
        if self._pump is not None:
            await self._pump

    async def _send_all(self) -> None:
        while self._waiting:
            await self._engine_first.over()
            taken, self._waiting = self._waiting[:CHUNK], self._waiting[CHUNK:]
            chunk = [pack() for pack in taken]
            written = await self._send(chunk)
            self._count_refused(written)
            if self.delivered is not None:
                self.delivered(chunk, written)

    async def _send(self, chunk: list[Delivery]) -> list[bool]:
        told = False
        while True:
            try:
                return await self._queue.deliver(self._batch, chunk, ttl_s=self._ttl_s)
            except BusloadUnavailable as error:
                if not told:
                    logger.error("results kept, not delivered: %s", error, extra=fields(batch=self._batch))
                told = True
                await asyncio.sleep(AGAIN_S)

    def _count_refused(self, written: list[bool]) -> None:
        refused = written.count(False)
        if refused:
            logger.warning(
                "results refused: the lease was lost or the ids were answered before",
                extra=fields(batch=self._batch, rows=refused),
            )
