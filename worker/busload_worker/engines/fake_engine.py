"""The fake engine in the worker's own process: for benchmarks of everything but the engine, and fast
tests."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Sequence

from busload_shared.errors import BatchFailed, EngineAbsent, EngineDied, OutOfMemory
from busload_shared.result import Proof

from .fake_model import FakeCurve, Plan, Stop, fault_of, plan_batch, row_done, too_much
from .protocol import BatchDone, EngineEvent, EngineInfo, EngineRow
from .tally import Tally

LAST_S = 0.0015
"""An event loop's sleep may end a millisecond late: the last of a stop is slept through on the spot."""


class FakeEngine:
    """An Engine without a process: a crash or an exit on demand is told as EngineDied.

    At a zero curve a row costs a few microseconds: it has no await and no validation of its own.
    """

    def __init__(self, curve: FakeCurve) -> None:
        self._curve = curve
        self._alive = False
        self._aborted: frozenset[int] = frozenset()
        self._changed = asyncio.Event()
        self._ended: float | None = None

    async def start(self) -> EngineInfo:
        self._alive = True
        self._ended = None
        return EngineInfo(engine="fake", model="fake", version="1", pid=os.getpid())

    async def run(self, batch: str, rows: Sequence[EngineRow]) -> AsyncIterator[EngineEvent]:
        """See Core for the order of events. Raises EngineDied, or BatchFailed if it still lives."""
        self._aborted = frozenset()
        self._changed.clear()
        if not self._alive:
            raise EngineAbsent("the fake engine was killed, or never started")
        plan = plan_batch(rows, self._curve)
        for told in plan.refused:
            yield told
        yield plan.started
        if (excess := too_much([row for stop in plan.stops for row in stop.rows])) is not None:
            raise OutOfMemory(excess)
        tally = Tally(batch, (row.index for stop in plan.stops for row in stop.rows))
        started = plan.started.at
        proof = Proof(
            spread_ms=0,
            preemptions=0,
            gap_ms=None if self._ended is None else (started - self._ended) * 1000,
        )
        await asyncio.sleep(0)
        tokens = 0
        for stop in plan.stops:
            await self._wait(stop, due=started + stop.at_ms / 1000)
            ran_ms = (time.monotonic() - started) * 1000
            for row in stop.rows:
                if row.index not in self._aborted and not (row.request.metadata and await self._lost(row)):
                    done = row_done(row, ran_ms=ran_ms, proof=proof)
                    tokens += done.usage.completion_tokens
                    tally.told(row.index)
                    yield done
        tally.close(self._aborted)
        yield self._done(plan, tokens=tokens, started=started, proof=proof)

    def abort(self, indexes: frozenset[int]) -> None:
        self._aborted |= indexes
        self._changed.set()

    async def kill(self) -> None:
        self._alive = False
        self._changed.set()

    async def stop(self) -> None:
        await self.kill()

    def _done(self, plan: Plan, *, tokens: int, started: float, proof: Proof) -> BatchDone:
        self._ended = time.monotonic()
        return BatchDone(
            ran_ms=(self._ended - started) * 1000,
            prompt_tokens=plan.started.prompt_tokens,
            completion_tokens=tokens,
            proof=proof,
        )

    def _must_live(self) -> None:
        if not self._alive:
            raise EngineDied("the fake engine was killed")

    async def _wait(self, stop: Stop, *, due: float) -> None:
        """Sleep until the stop is due, or until nobody wants it any more."""
        indexes = {row.index for row in stop.rows}
        while (left := due - time.monotonic()) > LAST_S and not indexes <= self._aborted:
            await self._sleep(left - LAST_S)
        if left > 0 and not indexes <= self._aborted:
            _doze(left)
        self._must_live()

    async def _sleep(self, seconds: float) -> None:
        """At most so long: an abort or a kill cuts it short."""
        self._changed.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass
        self._must_live()

    async def _lost(self, row: EngineRow) -> bool:
        """Do the fault that the row asks for; True when it is to go without an event."""
        fault = fault_of(row.request)
        if fault in ("crash", "exit"):
            self._alive = False
            raise EngineDied(f"the fake engine was told to {fault} by row {row.index}'s metadata")
        if fault == "oom":
            raise OutOfMemory(f"the fake engine ran out of memory, as row {row.index}'s metadata asks")
        if fault == "error":
            raise BatchFailed(f"the fake engine raised, as row {row.index}'s metadata asks")
        while fault == "hang":
            await self._sleep(3600)
        return fault == "drop"


def _doze(seconds: float) -> None:
    """Hold up the event loop for the last of a stop."""
    time.sleep(seconds)
