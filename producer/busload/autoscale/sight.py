"""What the policy sees of a queue, and the memory that makes it of one look after another. Pure."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from busload_shared.replies import QueueInfo, WorkerInfo

from ..operating.draining import answered, unfinished
from .batch_time import BatchTime, batch_time, mean_of

WINDOW_S = 120.0
"""Arrivals are averaged over so long at least."""

SIZE_MEMORY = 0.9
"""Weight of the old mean at each batch: that of the worker's own rate."""

_COMING = ("starting", "restarting")


@dataclass(frozen=True, slots=True)
class Sight:
    """A queue at `at_s` on the Redis clock. `waiting` includes those that are to run again.

    `arrivals_sd` is by how much `arrivals_per_s` may be off by chance, one standard deviation, if requests know nothing
    of each other. `ready` and `coming` count workers; those that drain or are broken are in neither. `batch` is how
    long a worker's batch takes, None while none has told.
    """

    at_s: float
    waiting: int
    inflight: int
    oldest_s: float
    arrivals_per_s: float
    arrivals_sd: float
    ready: int
    coming: int
    batch: BatchTime | None


@dataclass(slots=True)
class _Size:
    """A worker's batches and rows when last seen, and the mean rows of its recent batches."""

    batches: int
    rows: int
    mean: float


@dataclass(slots=True)
class Lookback:
    """Remembers looks at one queue for as long as they count: `WINDOW_S`, or the target where that is longer, so that
    a burst which may take its time is not taken for a rate."""

    target_s: float
    _came: deque[tuple[float, int]] = field(default_factory=deque)
    _sizes: dict[str, _Size] = field(default_factory=dict)

    def look(self, info: QueueInfo) -> Sight:
        """Take in what the queue says."""
        at_s = info.now_ms / 1000
        states = [worker.state for worker in info.workers]
        came, span_s = self._arrivals(at_s, unfinished(info) + answered(info))
        return Sight(
            at_s=at_s,
            waiting=info.waiting + info.retry,
            inflight=info.inflight,
            oldest_s=(info.oldest_waiting_ms or 0.0) / 1000,
            arrivals_per_s=came / span_s,
            arrivals_sd=math.sqrt(came) / span_s,
            ready=states.count("ready"),
            coming=sum(states.count(state) for state in _COMING),
            batch=mean_of(list(self._times(info.workers))),
        )

    def _arrivals(self, at_s: float, came: int) -> tuple[int, float]:
        """How many came in how many seconds. Never over less than the window: what came just now is in the queue, and
        counts there."""
        if self._came and (came < self._came[-1][1] or at_s < self._came[-1][0]):
            self._came.clear()  # somebody emptied Redis, or it is another one
        self._came.append((at_s, came))
        window_s = max(WINDOW_S, self.target_s)
        while len(self._came) > 2 and at_s - self._came[1][0] >= window_s:
            self._came.popleft()
        first_s, first = self._came[0]
        return came - first, max(window_s, at_s - first_s)

    def _times(self, workers: Iterable[WorkerInfo]) -> Iterable[BatchTime]:
        sizes: dict[str, _Size] = {}
        for worker in workers:
            size = _size(worker, self._sizes.get(worker.name))
            if size is None:
                continue
            sizes[worker.name] = size
            if worker.state == "ready" and worker.rows_per_s:
                rate, seats = worker.rows_per_s, worker.max_batch_size
                yield batch_time(rows_per_s=rate, mean_rows=size.mean, seats=seats, curve=worker.curve)
        self._sizes = sizes


def _size(worker: WorkerInfo, before: _Size | None) -> _Size | None:
    batches, rows = worker.batches_done, worker.rows_done
    if batches < 1 or rows < 1:
        return None
    if before is None or batches < before.batches or rows < before.rows:
        return _Size(batches, rows, rows / batches)
    new = batches - before.batches
    if not new:
        return before
    kept = SIZE_MEMORY**new
    return _Size(batches, rows, max(1.0, kept * before.mean + (1 - kept) * (rows - before.rows) / new))
