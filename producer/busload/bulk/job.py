"""A bulk file's way through the queue: lines in, records out, and counts that add up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from busload_shared.result import Result

from ..looking import statuses
from ..turnstile import AT_MOST
from ..wiring import Wiring
from .answers import Encoder
from .entry import Entry
from .flight import Answer, Flight
from .sink import Sink

_TURN_S = 0.02
"""How long lines are read before the event loop has its turn."""


@dataclass(slots=True)
class Counts:
    """`read` = `succeeded` + `failed` + `invalid` + `skipped` + what is under way. `skipped` were written by an earlier
    run; `run_again` had a result that passed its time to live before it was written."""

    read: int = 0
    succeeded: int = 0
    failed: int = 0
    invalid: int = 0
    skipped: int = 0
    run_again: int = 0

    @property
    def done(self) -> int:
        """Lines that need nothing more."""
        return self.succeeded + self.failed + self.invalid + self.skipped


class BulkJob:
    """Runs the entries, `in_flight` at once. Each landing is written at once, so that a kill loses nothing that the
    queue does not hold. Lines up to `known_until` may have been submitted by an earlier run."""

    def __init__(self, wiring: Wiring, output: Sink, errors: Sink, encoder: Encoder, *, in_flight: int) -> None:
        self.counts: Counts = Counts()
        self._queue = wiring.queue
        self.flight: Flight[Entry] = Flight(wiring, in_flight=in_flight)
        self._output, self._errors, self._encoder = output, errors, encoder

    async def run(self, entries: Iterator[Entry | None], *, known_until: int, tell: Callable[[], None]) -> None:
        """To the end of the entries. `tell` is called at each turn. Raises BusloadUnavailable; leaves nothing behind
        that another run would not find."""
        flight, ended = self.flight, False
        try:
            while not ended or flight.count:
                taken, ended = self._take(entries, flight.room)
                await self._send(taken, known_until)
                if flight.count and (ended or not flight.room):
                    await flight.changed()
                else:
                    await asyncio.sleep(0)
                self._write(flight.landed())
                tell()
        finally:
            flight.close()

    def _take(self, entries: Iterator[Entry | None], room: int) -> tuple[list[Entry], bool]:
        """Up to `room` entries that are to be written, and whether that was the end."""
        taken: list[Entry] = []
        until = time.monotonic() + _TURN_S
        while len(taken) < room:
            try:
                entry = next(entries)
            except StopIteration:
                return taken, True
            self.counts.read += 1
            if entry is None:
                self.counts.skipped += 1
            else:
                taken.append(entry)
            if time.monotonic() > until:
                break
        return taken, False

    async def _send(self, taken: list[Entry], known_until: int) -> None:
        await self._look_for_expired([each.id for each in taken if each.one and each.number <= known_until])
        for entry in taken:
            if entry.one is not None:
                self.flight.send(entry, entry.one)
            elif entry.error is not None:
                self.flight.land(entry, entry.error)

    async def _look_for_expired(self, ids: list[str]) -> None:
        for start in range(0, len(ids), AT_MOST):
            found = await statuses(self._queue, ids[start : start + AT_MOST])
            self.counts.run_again += sum(getattr(status, "state", None) == "expired" for status in found)

    def _write(self, landed: list[tuple[Entry, Answer]]) -> None:
        good: list[bytes] = []
        bad: list[bytes] = []
        for entry, answer in landed:
            record = self._encoder.record(entry, answer)
            if isinstance(answer, Result) and answer.status == "succeeded":
                self.counts.succeeded += 1
                good.append(record)
                continue
            self.counts.invalid += entry.one is None
            self.counts.failed += entry.one is not None
            bad.append(record)
        self._output.append(good)
        self._errors.append(bad)
