"""Looks, decides, acts, tells, again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from busload_shared.errors import BusloadUnavailable
from busload_shared.queue import Queue

from .drivers import Driver, ScalingFailed
from .policy import Decision, Memory, decide
from .rules import Rules
from .sight import Lookback, Sight
from .telling import Told, told


@dataclass(slots=True)
class Autoscaler:
    """One queue's. `tell` hears of each look, `complain` of what went wrong."""

    queue: Queue
    rules: Rules
    driver: Driver
    tell: Callable[[Told], None]
    complain: Callable[[str], None]
    _lookback: Lookback = field(init=False)
    _memory: Memory | None = None
    _applied: int | None = None
    _applied_s: float = 0.0

    def __post_init__(self) -> None:
        self._lookback = Lookback(self.rules.target_s)

    async def run(self, stop: asyncio.Event, *, interval_s: float) -> None:
        """Until `stop` is set, whatever Redis and the driver do. The workers stay as they are then."""
        while not stop.is_set():
            looking = asyncio.create_task(self.look())
            stopping = asyncio.create_task(stop.wait())
            try:
                await asyncio.wait({looking, stopping}, return_when=asyncio.FIRST_COMPLETED)
                if looking.done():
                    looking.result()
                    with suppress(TimeoutError):
                        await asyncio.wait_for(stop.wait(), interval_s)
            finally:
                for task in (looking, stopping):
                    task.cancel()
                await asyncio.gather(looking, stopping, return_exceptions=True)

    async def look(self) -> None:
        """One look, and what follows from it."""
        try:
            info = await self.queue.info()
        except BusloadUnavailable as error:
            stay = "the workers stay as they are" if self._memory is None else f"{self._memory.asked} workers stay"
            self.complain(f"{stay}: {error}")
            return
        sight = self._lookback.look(info)
        decision = decide(sight, self.rules, self._memory)
        if self._memory is None:  # what is there is what was wanted
            self._applied, self._applied_s = sight.ready + sight.coming, sight.at_s
        was = self._memory.asked if self._memory else sight.ready + sight.coming
        self._memory = decision.memory
        self.tell(told(self.queue.keys.queue, sight, self.rules, decision, was=was))
        await self._act(sight, decision)

    async def _act(self, sight: Sight, decision: Decision) -> None:
        """Once for each new number, and again when it was not brought about in the time that a start takes."""
        is_missing = sight.ready + sight.coming != decision.workers
        is_overdue = is_missing and sight.at_s - self._applied_s >= max(self.rules.start_s, 1.0)
        if decision.workers == self._applied and not is_overdue:
            return
        try:
            await self.driver.scale(decision.workers)
        except ScalingFailed as error:
            self.complain(str(error))
            self._applied = None
            return
        self._applied, self._applied_s = decision.workers, sight.at_s
