"""What every worker does for the queue besides running batches: any worker can do it, none has to be elected."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from busload_shared.errors import BusloadUnavailable
from busload_shared.queue import Queue

from .answers import expired_waiting
from .logs import fields
from .settings import Settings
from .vitals import Vitals

logger = logging.getLogger("busload.housekeeping")

TICK_S = 0.5
AUDIT_EVERY_S = 10.0
STALE_S = 10.0
"""An idle worker looks twice a second; one that has not for this long cannot take a batch, whatever it says."""
RECORD_TTL_S = 15.0
"""A worker that said nothing for this long is off the list; its batches' leases run out by themselves."""


class Housekeeper:
    """Every half second: says that this worker lives, stamps raw elements, takes back lapsed batches, answers waiting
    requests whose deadline has passed.

    After an outage it takes nothing back for one lease: the others could not renew either, and are not dead.
    `quiet_s` puts the first reclaim off likewise, for a Redis that has only just come up. `unwanted` is called at
    each tick to stop running rows that nobody wants any more, `share` to tell other workers what was learned.
    """

    def __init__(
        self,
        queue: Queue,
        settings: Settings,
        vitals: Vitals,
        *,
        quiet_s: float,
        unwanted: Callable[[], Awaitable[None]],
        share: Callable[[], Awaitable[None]],
    ) -> None:
        self._queue = queue
        self._settings = settings
        self._vitals = vitals
        self._unwanted = unwanted
        self._share = share
        self._reclaim_from = time.monotonic() + quiet_s
        self._audit_at = time.monotonic() + AUDIT_EVERY_S
        self._blind = False

    async def run(self) -> None:
        """Tick until cancelled; by then the worker drains, and the ready file goes."""
        try:
            while True:
                await self.tick()
                await asyncio.sleep(TICK_S)
        finally:
            self._show_ready()

    async def tick(self) -> None:
        """One round. A Redis that is away is logged once, and asked again at the next tick."""
        try:
            record = self._vitals.record(self._settings, pid=os.getpid())
            self._vitals.workers = await self._queue.heartbeat(record, ttl_s=RECORD_TTL_S)
            if self._blind:
                self._sighted()
            await self._queue.stamp()
            await self._take_back()
            await self._unwanted()
            await self._expire()
            await self._share()
            await self._audit()
        except BusloadUnavailable as error:
            if not self._blind:
                logger.error("Redis is away: %s", error)
            self._blind = True
        self._show_ready()

    def _sighted(self) -> None:
        self._blind = False
        self._reclaim_from = time.monotonic() + self._settings.lease_s
        logger.info("Redis is back; lapsed batches are left alone for one lease")

    async def _take_back(self) -> None:
        if time.monotonic() < self._reclaim_from:
            return
        while lapsed := await self._queue.reclaim():
            for taken in lapsed:
                logger.warning(
                    "took back a batch whose worker fell silent",
                    extra=fields(batch=taken.batch, claim=taken.meta, rows=taken.rows),
                )

    async def _expire(self) -> None:
        """Whatever the engine does: a reader is told at once that nothing will come."""
        while ids := await self._queue.overdue():
            answers = {request_id: expired_waiting(request_id, self._settings.worker_name) for request_id in ids}
            answered = await self._queue.expire(answers, ttl_s=self._settings.result_ttl_s)
            if answered:
                logger.info("deadlines passed while requests waited", extra=fields(requests=answered))

    async def _audit(self) -> None:
        if time.monotonic() < self._audit_at:
            return
        self._audit_at = time.monotonic() + AUDIT_EVERY_S
        repaired = await self._queue.audit(grace_ms=self._settings.lease_s * 1000)
        if repaired:
            logger.warning("repaired batches without a lease or without a record", extra=fields(count=repaired))

    def _show_ready(self) -> None:
        """Keep the ready file true: there only while this worker can take a batch or runs one, and as old as its last
        tick."""
        if not self._settings.ready_file:
            return
        path = Path(self._settings.ready_file)
        ready = self._vitals.state == "ready" and not self._blind and self._vitals.working(within_s=STALE_S)
        try:
            if ready:
                path.write_text(f"{os.getpid()}\n", encoding="ascii")
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            logger.error("cannot keep BUSLOAD_READY_FILE true: %s; see the disk and its rights", error)
