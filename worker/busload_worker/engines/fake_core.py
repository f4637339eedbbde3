"""The fake engine in a process of its own: what tests and the demo put into the host instead of vLLM."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence

from busload_shared.errors import OutOfMemory
from busload_shared.result import Proof

from .fake_model import FakeCurve, Stop, fault_of, plan_batch, row_done, too_much
from .protocol import BatchDone, BatchStarted, EngineInfo, EngineRow, RowDone, RowRefused

_TICK_S = 0.02
"""Longest sleep between two looks at the aborted rows."""

Emit = Callable[[BatchStarted | RowDone | RowRefused | BatchDone], None]


class FakeCore:
    """A Core with FakeCurve's times. Its crash and exit faults end the process it runs in."""

    def __init__(self, config: FakeCurve) -> None:
        self._curve = config
        self._ended: float | None = None

    @classmethod
    def from_json(cls, config: str) -> FakeCore:
        return cls(FakeCurve.model_validate_json(config))

    def load(self) -> EngineInfo:
        return EngineInfo(engine="fake", model="fake", version="1", pid=os.getpid())

    def close(self) -> None:
        """Nothing to free."""

    def run(
        self,
        rows: Sequence[EngineRow],
        *,
        emit: Emit,
        aborted: Callable[[], frozenset[int]],
        tick: Callable[[], None],
    ) -> None:
        plan = plan_batch(rows, self._curve)
        for told in plan.refused:
            emit(told)
        emit(plan.started)
        if (excess := too_much([row for stop in plan.stops for row in stop.rows])) is not None:
            raise OutOfMemory(excess)
        started = plan.started.at
        gap_ms = None if self._ended is None else (started - self._ended) * 1000
        proof = Proof(spread_ms=0, preemptions=0, gap_ms=gap_ms)
        tokens = 0
        for stop in plan.stops:
            _wait(stop, started=started, aborted=aborted, tick=tick)
            tokens += _let_off(stop, started=started, proof=proof, emit=emit, aborted=aborted)
        self._ended = time.monotonic()
        ran_ms = (self._ended - started) * 1000
        emit(
            BatchDone(
                ran_ms=ran_ms,
                prompt_tokens=plan.started.prompt_tokens,
                completion_tokens=tokens,
                proof=proof,
            )
        )


def _wait(stop: Stop, *, started: float, aborted: Callable[[], frozenset[int]], tick: Callable[[], None]) -> None:
    """Sleep until the stop is due, or until nobody wants it any more."""
    indexes = {row.index for row in stop.rows}
    due = started + stop.at_ms / 1000
    tick()
    while (left := due - time.monotonic()) > 0 and not indexes <= aborted():
        time.sleep(min(left, _TICK_S))
        tick()


def _let_off(stop: Stop, *, started: float, proof: Proof, emit: Emit, aborted: Callable[[], frozenset[int]]) -> int:
    """Tell of the rows that end here; returns their new tokens."""
    gone = aborted()
    ran_ms = (time.monotonic() - started) * 1000
    tokens = 0
    for row in stop.rows:
        if row.index in gone or _dropped(row):
            continue
        done = row_done(row, ran_ms=ran_ms, proof=proof)
        tokens += done.usage.completion_tokens
        emit(done)
    return tokens


def _dropped(row: EngineRow) -> bool:
    """Do the fault that the row asks for; True when it is to go without an event."""
    fault = fault_of(row.request)
    if fault == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault == "exit":
        os._exit(3)
    elif fault == "oom":
        raise MemoryError("the fake engine ran out of memory, as the row's metadata asks")
    elif fault == "error":
        raise RuntimeError("the fake engine raised, as the row's metadata asks")
    elif fault == "hang":
        while True:
            time.sleep(3600)
    return fault == "drop"
