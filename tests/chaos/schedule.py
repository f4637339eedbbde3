"""Which fault comes next, and when: a shuffled deck, dealt by the seed."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Iterator, Sequence

from tests.chaos import faults_clock, faults_engine, faults_network, faults_redis, faults_worker
from tests.chaos.faults import Fault
from tests.chaos.lab import Lab
from tests.chaos.ledger import Injected

ALL: list[Fault] = [
    *faults_worker.FAULTS,
    *faults_engine.FAULTS,
    *faults_redis.FAULTS,
    *faults_network.FAULTS,
    *faults_clock.FAULTS,
]

AT_ONCE = 10
"""Faults under way together; the next waits."""


def fitting(lab: Lab) -> tuple[list[Fault], list[str]]:
    """The faults to deal, and a line for each that cannot be done here."""
    wanted = lab.options.only
    unknown = set(wanted) - {fault.name for fault in ALL}
    if unknown:
        raise SystemExit(f"no such fault: {', '.join(unknown)}; there are: {', '.join(fault.name for fault in ALL)}")
    if lab.options.engine != "fake":  # that starts slowly, and dies like any process
        wanted = wanted or ("worker kill -9", "engine kill -9")
    chosen = [fault for fault in ALL if not wanted or fault.name in wanted]
    skipped = [f"{fault.name}: {why}" for fault in chosen if (why := fault.unfit(lab))]
    return [fault for fault in chosen if not fault.unfit(lab)], skipped


def deal(faults: Sequence[Fault], dice: random.Random) -> Iterator[Fault]:
    """For ever: each deck holds every fault `weight` times, in an order of its own."""
    while True:
        deck = [fault for fault in faults for _ in range(fault.weight)]
        dice.shuffle(deck)
        yield from deck


class Injector:
    """Injects fault after fault until told to stop."""

    def __init__(self, lab: Lab, faults: Sequence[Fault]) -> None:
        self._lab = lab
        self._dice = random.Random(lab.options.seed)
        self._deck = deal(faults, self._dice)
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._running: set[asyncio.Task[None]] = set()
        self.failed: BaseException | None = None

    async def run(self, until: asyncio.Event) -> None:
        """Deal until `until` is set; then wait until the last harm is over."""
        while not until.is_set() and self.failed is None:
            await self._slots.acquire()
            task = asyncio.create_task(self._inject(next(self._deck), random.Random(self._dice.getrandbits(64))))
            self._running.add(task)
            task.add_done_callback(self._done)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(until.wait(), self._dice.expovariate(self._lab.options.faults_per_s))
        await asyncio.gather(*self._running, return_exceptions=True)
        if self.failed is not None:
            raise self.failed

    def _done(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._slots.release()
        if not task.cancelled() and task.exception() is not None:
            self.failed = self.failed or task.exception()

    async def _inject(self, fault: Fault, dice: random.Random) -> None:
        injected = Injected(fault.name, time.monotonic(), kills=fault.kills, everybody=fault.everybody)
        async with self._lab.alone if fault.everybody else contextlib.nullcontext():
            injected.began_at = time.monotonic()
            self._lab.ledger.faults.append(injected)
            await fault.inject(self._lab, dice, injected)
