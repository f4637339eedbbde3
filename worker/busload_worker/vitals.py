"""What a worker knows of itself: its state, its counts, its rate. The heartbeat carries it to Redis."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from importlib.metadata import version

from busload_shared.past_batch import PAST_BATCHES_KEPT, PastBatch
from busload_shared.replies import WorkerInfo, WorkerState

from .auto_wait import AutoWait
from .curve_fit import CurveFit
from .engines.protocol import BatchDone, EngineInfo
from .metrics_meter import Meter
from .settings import Settings

BUSLOAD_VERSION = version("busload")

RATE_MEMORY = 0.9
"""Share of the old rate kept at each batch: it follows a change within some ten batches."""


PACES = 64
"""Batches whose fastest row is remembered."""


@dataclass(slots=True)
class Vitals:
    """Mutable, and only ever touched from the worker's event loop. `looked_ms` is Unix ms on the Redis clock,
    `looked_at` the same moment on the monotonic one. `workers` is how many are on the queue, 0 while not known."""

    state: WorkerState = "starting"
    engine: EngineInfo | None = None
    batch: str | None = None
    batch_size: int = 0
    batches_done: int = 0
    rows_done: int = 0
    rows_per_s: float | None = None
    mean_batch_ms: float | None = None
    engine_restarts: int = 0
    leases_lost: int = 0
    proofs_broken: int = 0
    out_of_memory: int = 0
    looked_ms: float | None = None
    looked_at: float | None = None
    workers: int = 0
    fit: CurveFit = field(default_factory=CurveFit)
    meter: Meter = field(default_factory=Meter)
    auto: AutoWait | None = None
    paces: deque[float] = field(default_factory=lambda: deque(maxlen=PACES))
    past_is_told: bool = True
    past: deque[PastBatch] = field(default_factory=lambda: deque(maxlen=PAST_BATCHES_KEPT))

    def looked(self, now_ms: float) -> None:
        """The queue has answered a claim."""
        self.looked_ms, self.looked_at = now_ms, time.monotonic()

    def working(self, *, within_s: float) -> bool:
        """Whether a batch runs, or the queue was looked at within so many seconds."""
        return self.batch is not None or (self.looked_at is not None and time.monotonic() - self.looked_at < within_s)

    @property
    def alone(self) -> bool:
        """Whether no other worker is on the queue."""
        return self.workers == 1

    def boarded(self, batch: str, size: int) -> None:
        """A batch is about to run."""
        self.batch, self.batch_size = batch, size
        self.meter.engine("busy")

    def arrived(self, *, run_s: float, past: PastBatch) -> None:
        """The batch is over after `run_s` seconds."""
        self.past.append(past)
        self.past_is_told = False
        self.batches_done += 1
        self.rows_done += self.batch_size
        self.meter.arrived()
        if run_s > 0:
            rate = self.batch_size / run_s
            self.rows_per_s = rate if self.rows_per_s is None else self._blend(self.rows_per_s, rate)
            ran_ms = run_s * 1000
            self.mean_batch_ms = ran_ms if self.mean_batch_ms is None else self._blend(self.mean_batch_ms, ran_ms)
        self.idle()

    def learn(self, done: BatchDone | None, *, longest: int, pace_ms: float) -> None:
        """A batch ran to its end: how long for how much. `pace_ms` is the least time a row of it took for a token."""
        if done is not None and longest:
            self.paces.append(pace_ms)
            self.fit.add(
                prompt_tokens=done.prompt_tokens,
                longest=longest,
                new_tokens=done.completion_tokens,
                ran_ms=done.ran_ms,
            )

    @property
    def pace_ms(self) -> float:
        """The least time that any row of the last batches took for a token, ms; 0 while nothing ran."""
        return min(self.paces, default=0.0)

    def idle(self) -> None:
        """No batch runs."""
        self.batch, self.batch_size = None, 0

    @staticmethod
    def _blend(old: float, new: float) -> float:
        return RATE_MEMORY * old + (1 - RATE_MEMORY) * new

    def record(self, settings: Settings, *, pid: int) -> WorkerInfo:
        """What the heartbeat says."""
        engine = self.engine
        return WorkerInfo(
            name=settings.worker_name,
            state=self.state,
            engine=engine.engine if engine else settings.engine,
            model=engine.model if engine else settings.model,
            version=engine.version if engine else "",
            pid=pid,
            partitions=settings.partitions,
            max_batch_size=settings.max_batch_size,
            max_wait_ms=settings.longest_wait_ms,
            batch=self.batch,
            batch_size=self.batch_size,
            batches_done=self.batches_done,
            rows_done=self.rows_done,
            rows_per_s=self.rows_per_s,
            engine_restarts=self.engine_restarts,
            leases_lost=self.leases_lost,
            proofs_broken=self.proofs_broken,
            out_of_memory=self.out_of_memory,
            looked_ms=self.looked_ms,
            curve=self.fit.curve(),
            wait=self.auto.info() if self.auto else None,
            busload_version=BUSLOAD_VERSION,
        )
