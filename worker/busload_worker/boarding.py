"""Waits for the next batch: sleeps while nobody waits, looks now and then while it fills, claims it when it leaves."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import secrets
import time
from collections.abc import Coroutine

from redis.asyncio import Redis

from busload_shared.connection import LONGEST_BLOCK_S
from busload_shared.errors import BusloadUnavailable
from busload_shared.queue import Queue
from busload_shared.replies import Claim, NotYet

from .auto_wait import AutoWait
from .choosing import Chooser
from .chores import idle_look_every_s
from .ending import end
from .head_start import HeadStart
from .logs import fields
from .policy import LEAST_PAUSE_MS, pause_ms
from .settings import Settings
from .vitals import Vitals
from .waiting_rule import Decision
from .weight import BatchLimit

logger = logging.getLogger("busload.boarding")

DAY_S = 86_400
"""A claimed id is known for twice its result's life, a day at least: so long `expired` is told from `unknown`."""

NEVER_MS = 1e12
"""A wait that never ends by itself: only a full batch leaves, or suspects."""

LONGEST_TRIP_S = 0.001
"""A look that took longer had more to wait for than the way to Redis and back."""

POLL_S = 0.02
"""Between looks where Redis cannot block for us: at maxmemory it refuses the blocking peek."""


class Boarding:
    """Claims batches of `limit` rows at most for one worker. `blocking` is a Redis client of its own, for the blocking
    peek; `chooser` picks rows from a backlog; `auto` is there when the wait is learned."""

    def __init__(
        self,
        queue: Queue,
        blocking: Redis,
        settings: Settings,
        vitals: Vitals,
        *,
        limit: BatchLimit,
        chooser: Chooser,
        auto: AutoWait | None = None,
    ) -> None:
        self._queue = queue
        self._blocking = blocking
        self._settings = settings
        self._vitals = vitals
        self._limit = limit
        self._chooser = chooser
        self._auto = vitals.auto = auto
        self.head_start = HeadStart(0.0 if auto else settings.longest_wait_ms)
        self._decision: Decision | None = None
        self._name = _new_name()
        self._left_waiting = 0
        self._trip_s = 0.0

    async def next_claim(self, stop: asyncio.Event) -> Claim | None:
        """The next batch, or None once `stop` is set; what was claimed by then is handed back in order."""
        before: NotYet | None = None
        while not stop.is_set():
            look = await self._ask(stop)
            if isinstance(look, Claim):
                return look
            if look is not None:
                await self._wait_for_more(look, before, stop)
            before = look
        await self._hand_back()
        return None

    async def _ask(self, stop: asyncio.Event) -> Claim | NotYet | None:
        """The next batch if it leaves now: at one look, or at two where the wait is learned."""
        look = await self._look(stop, max_wait_ms=self._settings.longest_wait_ms - self.head_start.ms)
        if isinstance(look, NotYet) and self._leaves_now(look):
            look = await self._look(stop, max_wait_ms=0)
        return look

    def _leaves_now(self, look: NotYet) -> bool:
        """Whether the learned wait says that more need not be waited for."""
        if self._auto is None or look.depth == 0:
            return False
        self._decision = self._auto.decide(look, size=self._limit.now)
        logger.debug("%s", self._decision.reason, extra=fields(waiting=look.depth))
        self._vitals.meter.decisions["wait" if self._decision.wait else "leave"] += 1
        return not self._decision.wait

    async def full_claim(self, stop: asyncio.Event) -> Claim | None:
        """The next batch if it is full already, at one look: nobody's batch is sealed early for it."""
        look = await self._look(stop, max_wait_ms=NEVER_MS)
        return look if isinstance(look, Claim) else None

    def saw_waiting(self) -> bool:
        """Whether the last look left anybody waiting."""
        return self._left_waiting > 0

    async def due_claim(self, stop: asyncio.Event) -> Claim | None:
        """The next batch if it leaves now."""
        look = await self._ask(stop)
        return look if isinstance(look, Claim) else None

    async def _look(self, stop: asyncio.Event, *, max_wait_ms: float) -> Claim | NotYet | None:
        """One look; None when Redis is away. The batch's name stays the same until a claim's reply has come: a
        claim whose reply was lost is found again under it."""
        s, batch, began = self._settings, self._name, time.monotonic()
        try:
            choice = await self._chooser.choose(size=self._limit.now, now_ms=self._vitals.looked_ms or 0.0)
            look = await self._queue.claim(
                batch,
                worker=s.worker_name,
                max_batch_size=self._limit.now,
                max_wait_ms=max_wait_ms,
                lease_ms=s.lease_s * 1000,
                keep_ms=int(max(2 * s.result_ttl_s, DAY_S) * 1000),
                choice=choice,
            )
        except BusloadUnavailable as error:
            logger.error("cannot claim: %s", error, extra=fields(queue=s.queue))
            await _first(stop.wait(), asyncio.sleep(random.uniform(0.5, 1.0)))
            return None
        self._vitals.looked(look.now_ms)
        self._left_waiting, self._trip_s = look.depth, min(LONGEST_TRIP_S, time.monotonic() - began)
        if isinstance(look, Claim):
            self._name = _new_name()
            if self._auto is not None:
                self._auto.boarded(look, alone=self._vitals.alone and s.order == "fifo")
        return look

    async def _wait_for_more(self, look: NotYet, before: NotYet | None, stop: asyncio.Event) -> None:
        if look.depth == 0:
            await self._wait_for_first(stop)
            return
        s = self._settings
        pause = pause_ms(look, before, max_batch_size=self._limit.now, max_wait_ms=s.longest_wait_ms)
        if self._decision is not None:
            pause = min(pause, max(LEAST_PAUSE_MS, self._decision.look_in_ms))
        if pause >= LEAST_PAUSE_MS:
            await asyncio.sleep(int(pause) / 1000)
        else:
            await _until(time.monotonic() + pause / 1000 - self._trip_s / 2)

    async def _wait_for_first(self, stop: asyncio.Event) -> None:
        """Until somebody comes, or it is time to look for suspects: they ring no bell."""
        clock = asyncio.get_running_loop().time
        every_s, found, refused = idle_look_every_s(self._vitals.workers), False, False
        look_at, block_s = clock() + every_s, min(every_s, LONGEST_BLOCK_S)
        while not (found or refused or stop.is_set()) and clock() < look_at:
            began = clock()
            try:
                peek = self._queue.wait_for_arrival(self._blocking, timeout_s=block_s)
                found = bool(await _first(stop.wait(), peek))
                refused = not found and clock() - began < POLL_S
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


async def _until(at: float) -> None:
    """Until this moment of the monotonic clock, s, less than a millisecond away: an event loop's sleep would round it
    up to one."""
    while time.monotonic() < at:  # noqa: ASYNC110 - time alone passes: there is no event to wait for
        await asyncio.sleep(0)


async def _first(*waits: Coroutine[object, object, object]) -> object:
    """The result of whichever ends first; the others are cancelled. Errors of the first are raised."""
    tasks = [asyncio.create_task(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(iter(done)).result()
    finally:
        await end(tasks)
