"""What every worker does besides running batches: it tells that it lives, and does its part of the queue's chores."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from busload_shared.errors import BusloadUnavailable
from busload_shared.queue import Queue

from .caretaker import Caretaker
from .chores import TICK_S, beat_every_s
from .ending import end
from .settings import Settings
from .vitals import Vitals

logger = logging.getLogger("busload.housekeeping")

STALE_S = 10.0
"""An idle worker looks every five seconds at least; one that has not for this long cannot take a batch, whatever it
says."""
RECORD_TTL_S = 15.0
"""A worker that said nothing for this long is off the list; its batches' leases run out by themselves."""

PAST_TTL_S = 600.0
"""So long it is told what ran last, also of a worker that is idle or gone."""


class Housekeeper:
    """Every half second: says that this worker lives, and stops what nobody wants any more. Beside that a Caretaker for
    each partition makes its rounds, so that a server that hangs holds up nobody else.

    `unwanted` is called at each tick to stop running rows that nobody wants any more, `share` to tell other workers
    what was learned.
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
        self._caretakers = [Caretaker(part, settings, vitals, quiet_s=quiet_s) for part in queue.parts]
        self._told = ""
        self._beat_at = 0.0
        self._blind = False

    async def run(self) -> None:
        """Go on until cancelled; by then the worker drains, and the ready file goes."""
        tasks = [asyncio.create_task(self._make_rounds(caretaker)) for caretaker in self._caretakers]
        tasks.append(asyncio.create_task(self._look_around()))
        try:
            await asyncio.gather(*tasks)
        finally:
            await end(tasks)
            self._show_ready()

    async def _look_around(self) -> None:
        while True:
            await self.look_around()
            await asyncio.sleep(TICK_S)

    async def _make_rounds(self, caretaker: Caretaker) -> None:
        while True:
            if not self._blind:
                await caretaker.round()
            await asyncio.sleep(caretaker.next_round_s())

    async def tick(self) -> None:
        """All of it once."""
        await self.look_around()
        if not self._blind:
            await asyncio.gather(*(caretaker.round() for caretaker in self._caretakers))
        self._show_ready()

    async def look_around(self) -> None:
        """What concerns this worker alone."""
        try:
            await self._tell()
            self._blind = False
        except BusloadUnavailable as error:
            self._blind = True
            for caretaker in self._caretakers:
                caretaker.missed(error)
        self._show_ready()
        if self._blind:
            return
        try:
            await self._unwanted()
            await self._share()
            await self._tell_past()
        except BusloadUnavailable:
            self._beat_at = 0.0  # the next heartbeat tells whether it is all of Redis that is away

    async def _tell(self) -> None:
        """The heartbeat; of many workers each gives it less often while its state is the same."""
        if self._vitals.state == self._told and time.monotonic() < self._beat_at and not self._blind:
            return
        record = self._vitals.record(self._settings, pid=os.getpid())
        self._vitals.workers = await self._queue.heartbeat(record, ttl_s=RECORD_TTL_S)
        self._told = record.state
        self._beat_at = time.monotonic() + beat_every_s(self._vitals.workers) - TICK_S / 2

    async def _tell_past(self) -> None:
        """Of the last batches, when there is news."""
        vitals = self._vitals
        if vitals.past_is_told:
            return
        vitals.past_is_told = True  # of a batch that ends meanwhile the next tick tells
        try:
            await self._queue.tell_past(self._settings.worker_name, list(vitals.past), ttl_s=PAST_TTL_S)
        except BusloadUnavailable:
            vitals.past_is_told = False
            raise

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
