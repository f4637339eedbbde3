"""What any worker does for one queue, or one partition of it: nobody has to be elected."""

from __future__ import annotations

import logging
import random
import time

from busload_shared.errors import BusloadUnavailable
from busload_shared.queue import Queue

from .answers import expired_waiting
from .chores import AUDIT_EVERY_S, TICK_S, audit_every_s, round_every_s, spread
from .logs import fields
from .settings import Settings
from .vitals import Vitals

logger = logging.getLogger("busload.housekeeping")


class Caretaker:
    """Stamps raw elements, takes back lapsed batches, answers waiting requests whose deadline has passed, and repairs.

    After an outage it takes nothing back for one lease: the others could not renew either, and are not dead.
    `quiet_s` puts the first time off likewise, for a Redis that has only just come up. The more workers there are, the
    less often each makes its round.
    """

    def __init__(self, queue: Queue, settings: Settings, vitals: Vitals, *, quiet_s: float) -> None:
        self._queue = queue
        self._settings = settings
        self._vitals = vitals
        self._reclaim_from = time.monotonic() + quiet_s
        self._audit_at = time.monotonic() + AUDIT_EVERY_S
        self._blind = False

    def next_round_s(self) -> float:
        """How long to wait for the next round."""
        every_s = round_every_s(self._vitals.workers, lease_s=self._settings.lease_s)
        return spread(every_s, random.random(), least_s=TICK_S)

    async def round(self) -> None:
        """One round. A Redis that is away is logged once, and asked again in the next."""
        try:
            await self._queue.stamp()
            if self._blind:
                self._sighted()
            await self._take_back()
            await self._expire()
            await self._audit()
        except BusloadUnavailable as error:
            self.missed(error)

    def missed(self, error: BusloadUnavailable) -> None:
        """Redis does not answer."""
        if not self._blind:
            logger.error("Redis is away: %s", error, extra=fields(queue=self._queue.keys.queue))
        self._blind = True

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
        every_s = audit_every_s(self._vitals.workers)
        self._audit_at = time.monotonic() + spread(every_s, random.random(), least_s=AUDIT_EVERY_S)
        repaired = await self._queue.audit(grace_ms=self._settings.lease_s * 1000)
        if repaired:
            logger.warning("repaired batches without a lease or without a record", extra=fields(count=repaired))
