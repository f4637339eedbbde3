"""The batch that is claimed while another runs, so that the engine need not wait for Redis, until its turn comes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Sequence
from dataclasses import replace

from busload_shared.errors import BusloadUnavailable
from busload_shared.queue import Queue
from busload_shared.replies import Claim, Delivery, Seat

from .admission import Boarded, admit, board
from .answers import Ride
from .boarding import Boarding
from .engine_first import EngineFirst
from .leases import LeaseKeeper
from .settings import Settings
from .vitals import Vitals
from .weight import BatchLimit

OTHERS_FIRST_S = 0.005
"""How long a busy worker leaves a waiting batch to idle ones before it claims ahead."""

LOOKS, LOOKS_AGAIN_S = 8, 0.01
"""While a batch runs, a worker that is alone looks so often, at most every so many s, whether the next is full."""

LONGEST_MS, LONGEST_BATCHES = 2000.0, 2.0
"""A claim ahead goes back after both: so many ms, and so many mean batch times."""


class RunEnd(asyncio.Event):
    """Set when the running batch is over. `well`: the engine is free, and may run as many rows again."""

    well = False


class Ahead:
    """At most one claim, under a lease like any other. It goes back when the worker stops or its engine dies."""

    def __init__(
        self,
        queue: Queue,
        settings: Settings,
        *,
        boarding: Boarding,
        leases: LeaseKeeper,
        limit: BatchLimit,
        vitals: Vitals,
    ) -> None:
        self._queue = queue
        self._settings = settings
        self._boarding = boarding
        self._leases = leases
        self._limit = limit
        self._vitals = vitals
        self.engine_first = EngineFirst()
        self._claim: Claim | None = None
        self._boarded: Boarded | None = None
        self._expires: dict[int, float] = {}

    async def take(self) -> Boarded | None:
        """Its turn has come. Its rows were looked at when it was claimed; they are once more if any has a deadline, or
        if some have left since."""
        claim, self._claim = self._claim, None
        boarded, self._boarded = self._boarded, None
        if claim is None:
            self.engine_first.end()
            return None
        if boarded is not None and boarded.ride.claim is claim and not self._expires:
            return boarded
        return await board(claim, self._settings.worker_name, pace_ms=self._vitals.pace_ms)

    async def fetch(self, running: Claim, *, ended: RunEnd, stop: asyncio.Event) -> None:
        """Claim the next batch while this one runs, once a whole one waits for every worker there is; else as soon as
        it has ended, where somebody was seen to wait: the batch's last answers are sent while Redis sees to that.

        Other workers come first: an idle one takes it within a few milliseconds, and one that is free before us must
        not find the queue empty while we hold what it could run. Beside suspects nothing is claimed:
        their engine may well die, and what then goes back has lost its turn.
        """
        self.engine_first.end()  # the run has begun: it had the turn before this task
        if running.trigger == "retry":
            return
        await self._fetch_full(running, ended, stop)
        if self._claim is not None:
            return
        await ended.wait()
        if ended.well and self._boarding.saw_waiting() and not stop.is_set():
            await self._keep(await self._boarding.due_claim(stop), pace_ms=self._vitals.pace_ms)

    async def engine_free(self, ended: RunEnd, *, well: bool) -> None:
        """The batch is over. Returns when the next one was asked for, if it was not claimed before."""
        ended.well = well
        if self._claim or (well and self._boarding.saw_waiting()):
            self.engine_first.begin()
        ended.set()
        for _ in range(0 if self._claim else 2):
            await asyncio.sleep(0)

    async def _fetch_full(self, running: Claim, ended: RunEnd, stop: asyncio.Event) -> None:
        enough = running.depth >= self._limit.now * max(1, self._vitals.workers)
        if self._vitals.alone:
            await self._look(ended, stop, wait_s=0.0 if enough else self._pause_s())
            while self._claim is None and not ended.is_set() and not stop.is_set():
                await self._look(ended, stop, wait_s=self._pause_s())
        elif enough:
            await self._look(ended, stop, wait_s=OTHERS_FIRST_S)

    def _pause_s(self) -> float:
        return max(LOOKS_AGAIN_S, (self._vitals.mean_batch_ms or 0.0) / 1000 / LOOKS)

    async def _look(self, ended: RunEnd, stop: asyncio.Event, *, wait_s: float) -> None:
        """One look after so long, unless the batch ends before."""
        if wait_s:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):  # wait_for would hear of the end two turns of the loop later
                    await ended.wait()
        if not ended.is_set() and not stop.is_set():
            # no deadline is judged yet: `sift` does that while the batch waits, and `take` when its turn comes
            await self._keep(await self._boarding.full_claim(stop), pace_ms=0.0, now_ms=0.0)

    async def _keep(self, claim: Claim | None, *, pace_ms: float, now_ms: float | None = None) -> None:
        self._claim = claim
        if claim is not None:
            self._leases.hold(claim.batch)
            self._boarded = boarded = await board(claim, self._settings.worker_name, pace_ms=pace_ms, now_ms=now_ms)
            self._expires = {} if now_ms is None else deadlines(boarded)

    async def give_back(self) -> None:
        """Hand back what was claimed and not begun."""
        claim, self._claim = self._claim, None
        if claim is not None:
            self._leases.drop(claim.batch)
            with contextlib.suppress(BusloadUnavailable):  # then its lease runs out
                await self._queue.hand_back(claim.batch)

    def lost(self, batch: str) -> None:
        """This batch's lease is gone; nothing of it may begin here."""
        if self._claim is not None and self._claim.batch == batch:
            self._claim = None
            self._leases.drop(batch)

    def _overstays(self, claim: Claim) -> bool:
        """Whether the batch that runs takes so long that others should have this one: it may even have hung."""
        patience_ms = max(LONGEST_MS, LONGEST_BATCHES * (self._vitals.mean_batch_ms or 0.0))
        return not self._vitals.alone and claim.clock_ms() - claim.now_ms > patience_ms

    async def sift(self) -> None:
        """Answer what was cancelled or has expired since it was claimed: the batch that runs may take minutes, and
        nobody need wait for that. And leave it to others when that takes too long."""
        claim = self._claim
        if claim is None:
            return
        if self._overstays(claim):
            await self.give_back()
            return
        names = [seat.element.id for seat in claim.seats if seat.element.id]
        cancelled = await self._queue.cancels(names, batch=claim.batch)
        gone = self._gone(claim, cancelled)
        if not gone or self._claim is not claim:
            return
        left = {seat.position for seat in gone}
        kept = [seat for seat in claim.seats if seat.position not in left]
        marked = self._claim = replace(claim, seats=tuple(sorted([*gone, *kept])))  # should it begin meanwhile
        answers = self._unrun(claim, gone)
        await self._queue.deliver(claim.batch, answers, ttl_s=self._settings.result_ttl_s)
        if self._claim is marked:
            self._claim = replace(claim, seats=tuple(kept)) if kept else None
            if not kept:
                self._leases.drop(claim.batch)

    def _gone(self, claim: Claim, cancelled: Collection[str]) -> list[Seat]:
        now_ms = claim.clock_ms()
        late = {position for position, at_ms in self._expires.items() if at_ms <= now_ms}
        return [
            seat._replace(cancelled=seat.element.id in cancelled)
            for seat in claim.seats
            if seat.element.id in cancelled or seat.position in late
        ]

    def _unrun(self, claim: Claim, gone: Sequence[Seat]) -> list[Delivery]:
        ride = Ride(replace(claim, seats=tuple(gone)), self._settings.worker_name, size=0)
        return admit(ride, claim.clock_ms()).answers


def deadlines(boarded: Boarded) -> dict[int, float]:
    """The positions of rows with a deadline, and when it passes, Unix ms on the Redis clock."""
    found = {}
    for position, (seat, request) in boarded.admission.seats.items():
        if (at_ms := request.expires_at_ms(seat.element.arrival_ms)) is not None:
            found[position] = at_ms
    return found
