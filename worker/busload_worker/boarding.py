"""Waits for the next batch: sleeps while nobody waits, looks now and then while it fills, claims it when it leaves."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import secrets
from collections.abc import Coroutine

from redis.asyncio import Redis

from busload_shared.connection import LONGEST_BLOCK_S
from busload_shared.errors import BusloadUnavailable
from busload_shared.queue import Queue
from busload_shared.replies import Claim, NotYet

from .ending import end
from .logs import fields
from .policy import pause_ms
from .settings import Settings
from .vitals import Vitals

logger = logging.getLogger("busload.boarding")

DAY_S = 86_400
"""A claimed id is known for twice its result's life, a day at least: so long `expired` is told from `unknown`."""

NEVER_MS = 1e12
"""A wait that never ends by itself: only a full batch leaves, or suspects."""

POLL_S = 0.02
"""Between looks where Redis cannot block for us: at maxmemory it refuses the blocking peek."""


class Boarding:
    """Claims batches for one worker. `blocking` is a Redis client of its own, for the blocking peek."""

    def __init__(self, queue: Queue, blocking: Redis, settings: Settings, vitals: Vitals) -> None:
        self._queue = queue
        self._blocking = blocking
        self._settings = settings
        self._vitals = vitals
        self._name = _new_name()

    async def next_claim(self, stop: asyncio.Event) -> Claim | None:
        """The next batch, or None once `stop` is set; what was claimed by then is handed back in order."""
        before: NotYet | None = None
        while not stop.is_set():
            look = await self._look(stop, max_wait_ms=self._settings.max_wait_ms)
            if isinstance(look, Claim):
                return look
            if look is not None:
                await self._wait_for_more(look, before, stop)
            before = look
        await self._hand_back()
        return None

    async def full_claim(self, stop: asyncio.Event) -> Claim | None:
        """The next batch if it is full already, at one look: nobody's batch is sealed early for it."""
        look = await self._look(stop, max_wait_ms=NEVER_MS)
        return look if isinstance(look, Claim) else None

    async def _look(self, stop: asyncio.Event, *, max_wait_ms: float) -> Claim | NotYet | None:
        """One look; None when Redis is away. The batch's name stays the same until a claim's reply has come: a
        claim whose reply was lost is found again under it."""
        s, batch = self._settings, self._name
        try:
            look = await self._queue.claim(
                batch,
                worker=s.worker_name,
                max_batch_size=s.max_batch_size,
                max_wait_ms=max_wait_ms,
                lease_ms=s.lease_s * 1000,
                keep_ms=int(max(2 * s.result_ttl_s, DAY_S) * 1000),
            )
        except BusloadUnavailable as error:
            logger.error("cannot claim: %s", error, extra=fields(queue=s.queue))
            await _first(stop.wait(), asyncio.sleep(random.uniform(0.5, 1.0)))
            return None
        self._vitals.looked(look.now_ms)
        if isinstance(look, Claim):
            self._name = _new_name()
        return look

    async def _wait_for_more(self, look: NotYet, before: NotYet | None, stop: asyncio.Event) -> None:
        if look.depth == 0:
            await self._wait_for_first(stop)
            return
        s = self._settings
        pause = pause_ms(look, before, max_batch_size=s.max_batch_size, max_wait_ms=s.max_wait_ms)
        # An event loop's sleep rounds up to whole ms. The last one before the oldest is due is spent looking instead.
        await asyncio.sleep(int(pause) / 1000)

    async def _wait_for_first(self, stop: asyncio.Event) -> None:
        try:
            peek = self._queue.wait_for_arrival(self._blocking, timeout_s=LONGEST_BLOCK_S / 2)
            began = asyncio.get_running_loop().time()
            found = await _first(stop.wait(), peek)
            refused = not found and asyncio.get_running_loop().time() - began < POLL_S
        except BusloadUnavailable:
            refused = True
        if refused:
            await asyncio.sleep(POLL_S)

    async def _hand_back(self) -> None:
        with contextlib.suppress(BusloadUnavailable):
            rows = await self._queue.hand_back(self._name)
            if rows:
                logger.info("handed back a claim whose reply was lost", extra=fields(batch=self._name, rows=rows))


def _new_name() -> str:
    return secrets.token_hex(8)


async def _first(*waits: Coroutine[object, object, object]) -> object:
    """The result of whichever ends first; the others are cancelled. Errors of the first are raised."""
    tasks = [asyncio.create_task(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(iter(done)).result()
    finally:
        await end(tasks)
