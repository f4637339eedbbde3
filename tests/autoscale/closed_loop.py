"""A queue and its workers on a held clock, with the autoscaler's policy in the loop."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from busload.autoscale.batch_time import BatchTime
from busload.autoscale.policy import Memory, decide
from busload.autoscale.rules import Rules
from busload.autoscale.sight import Lookback
from busload_shared.curve import ServiceCurve
from busload_shared.replies import QueueInfo, WorkerInfo

TICK_S = 0.25
LOOK_S = 5.0
TOKENS = 50
"""Of each row, so that the curve and the batch time agree."""


@dataclass(slots=True)
class Bus:
    """A worker. `rows` are the arrival times of those that ride."""

    name: str
    ready_s: float
    done_s: float = 0.0
    took_s: float = 0.0
    rows: list[float] = field(default_factory=list)
    batches: int = 0
    answered: int = 0
    rate: float | None = None
    is_leaving: bool = False


@dataclass(frozen=True, slots=True)
class Point:
    """What was so at one look."""

    at_s: float
    asked: int
    ready: int
    waiting: int


class ClosedLoop:
    """`rate(t)` requests come each second, evenly; workers are as `batch` says."""

    def __init__(self, rules: Rules, batch: BatchTime, rate: Callable[[float], float], *, workers: int = 0) -> None:
        self.rules, self.batch, self.rate = rules, batch, rate
        self.now_s = 0.0
        self.waiting: deque[float] = deque()
        self.workers = [Bus(f"w{n}", 0.0) for n in range(workers)]
        self.latencies: list[tuple[float, float]] = []
        self.points: list[Point] = []
        self._made, self._owed = workers, 0.0
        self._lookback, self._memory = Lookback(rules.target_s), None  # type: ignore[var-annotated]

    def run(self, for_s: float) -> ClosedLoop:
        """Let time pass."""
        until = self.now_s + for_s
        while self.now_s < until:
            self._arrive()
            self._ride()
            if math.isclose(self.now_s % LOOK_S, 0.0, abs_tol=TICK_S / 2):
                self._look()
            self.now_s += TICK_S
        return self

    def asked(self, since_s: float = 0.0) -> list[int]:
        """The numbers that were wanted, one after another, each change once."""
        numbers = [point.asked for point in self.points if point.at_s >= since_s]
        return [n for i, n in enumerate(numbers) if i == 0 or n != numbers[i - 1]]

    def latest(self, since_s: float) -> float:
        """The longest latency of those who came since then, s."""
        return max((took for came, took in self.latencies if came >= since_s), default=0.0)

    def _arrive(self) -> None:
        self._owed += self.rate(self.now_s) * TICK_S
        for _ in range(int(self._owed)):
            self.waiting.append(self.now_s)
        self._owed -= int(self._owed)

    def _ride(self) -> None:
        for bus in self.workers:
            if bus.rows and bus.done_s <= self.now_s:
                self.latencies += [(came, bus.done_s - came) for came in bus.rows]
                bus.batches, bus.answered = bus.batches + 1, bus.answered + len(bus.rows)
                rate = len(bus.rows) / bus.took_s
                bus.rate = rate if bus.rate is None else 0.9 * bus.rate + 0.1 * rate
                bus.rows = []
            if not bus.rows and bus.ready_s <= self.now_s and self.waiting and not bus.is_leaving:
                bus.rows = [self.waiting.popleft() for _ in range(min(len(self.waiting), self.batch.seats))]
                bus.took_s = self.batch.seconds(len(bus.rows))
                bus.done_s = self.now_s + bus.took_s
        self.workers = [bus for bus in self.workers if bus.rows or not bus.is_leaving]

    def _look(self) -> None:
        decision = decide(self._lookback.look(self._info()), self.rules, self._memory)
        self._memory: Memory | None = decision.memory
        staying = [bus for bus in self.workers if not bus.is_leaving]
        for bus in staying[decision.workers :]:
            bus.is_leaving = True
        for _ in range(decision.workers - len(staying)):
            self.workers.append(Bus(f"w{self._made}", self.now_s + self.rules.start_s))
            self._made += 1
        ready = sum(bus.ready_s <= self.now_s and not bus.is_leaving for bus in self.workers)
        self.points.append(Point(self.now_s, decision.workers, ready, len(self.waiting)))

    def _info(self) -> QueueInfo:
        return QueueInfo(
            queue="busload:default",
            now_ms=1000 * self.now_s,
            waiting=len(self.waiting),
            retry=0,
            inflight=sum(len(bus.rows) for bus in self.workers),
            leases=sum(bool(bus.rows) for bus in self.workers),
            dead=0,
            oldest_waiting_ms=1000 * (self.now_s - self.waiting[0]) if self.waiting else None,
            oldest_retry_ms=None,
            oldest_inflight_ms=None,
            workers=tuple(self._record(bus) for bus in self.workers),
            counters={"succeeded": len(self.latencies)},
        )

    def _record(self, bus: Bus) -> WorkerInfo:
        state = "draining" if bus.is_leaving else "ready" if bus.ready_s <= self.now_s else "starting"
        step_ms, token_ms = 1000 * self.batch.fixed_s / TOKENS, 1000 * self.batch.row_s / TOKENS
        curve = ServiceCurve(overhead_ms=0, prompt_ms=0, step_ms=step_ms, token_ms=token_ms)
        return WorkerInfo(
            name=bus.name,
            state=state,
            max_batch_size=self.batch.seats,
            batches_done=bus.batches,
            rows_done=bus.answered,
            rows_per_s=bus.rate,
            curve=curve if bus.batches >= 8 else None,
        )
