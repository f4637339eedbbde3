"""Stands before a worker's queue and counts what passes: claims, answers, leases, what was taken back."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, cast

from busload_shared.queue import Queue
from busload_shared.replies import Claim, Delivery, NotYet, Reclaimed

from .metrics_meter import Meter


def metered(queue: Queue, meter: Meter) -> Queue:
    """The same queue; the meter hears of it."""
    return cast(Queue, _MeteredQueue(queue, meter))


class _MeteredQueue:
    """Everything that is not here is the queue's own."""

    def __init__(self, queue: Queue, meter: Meter) -> None:
        self._queue = queue
        self._meter = meter

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    @property
    def parts(self) -> tuple[Queue, ...]:
        """Its partitions, counted likewise."""
        return tuple(metered(part, self._meter) for part in self._queue.parts)

    async def claim(self, batch: str, *, max_batch_size: int, **named: Any) -> Claim | NotYet:
        look = await self._queue.claim(batch, max_batch_size=max_batch_size, **named)
        if isinstance(look, Claim):
            self._meter.claimed(look, most=max_batch_size)
        return look

    async def deliver(self, batch: str, rows: Sequence[Delivery], *, ttl_s: float) -> list[bool]:
        began = time.monotonic()
        try:
            written = await self._queue.deliver(batch, rows, ttl_s=ttl_s)
        finally:
            self._meter.deliver_s.add(time.monotonic() - began)
        self._meter.delivered(rows, written)
        return written

    async def renew(self, batches: Sequence[str], *, lease_ms: float) -> list[bool]:
        kept = await self._queue.renew(batches, lease_ms=lease_ms)
        self._meter.renewals += sum(kept)
        return kept

    async def reclaim(self, **named: Any) -> list[Reclaimed]:
        lapsed = await self._queue.reclaim(**named)
        self._meter.reclaims += len(lapsed)
        self._meter.suspects += sum(taken.rows for taken in lapsed)
        return lapsed

    async def release(self, batch: str, *, evidence: bool = True) -> int:
        rows = await self._queue.release(batch, evidence=evidence)
        self._meter.suspects += rows
        return rows

    async def hand_back(self, batch: str) -> int:
        rows = await self._queue.hand_back(batch)
        self._meter.handed_back += rows
        return rows

    async def expire(self, answers: Mapping[str, bytes], *, ttl_s: float) -> int:
        answered = await self._queue.expire(answers, ttl_s=ttl_s)
        self._meter.expired(answered)
        return answered
