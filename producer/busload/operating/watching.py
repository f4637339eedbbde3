"""What is worth watching of a queue, from looks at it one after another: rates, fill, the buses that left."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace

from busload_shared.replies import QueueInfo, Running, RunningBatch

from ..demo.summary import percentile
from .draining import answered

WINDOW_S = 10.0
"""Rates are those of so long."""

BUSES_KEPT = 50


@dataclass(frozen=True, slots=True)
class Bus:
    """A batch that was seen while it was out. `is_back` once it is no more; `out_ms` is how long it was seen out."""

    batch: RunningBatch
    out_ms: float
    is_back: bool


@dataclass(frozen=True, slots=True)
class Frame:
    """One look at a queue. Rates are per second over the last `WINDOW_S`, None before there are two looks.

    `fill` is the mean share of seats that were taken in that time, `mean_size` the rows of a batch; None while no
    batch ended. `waited_p50_ms` and `waited_max_ms` are of the first rows of the buses seen.
    """

    info: QueueInfo
    buses: tuple[Bus, ...]
    answered_per_s: float | None
    failed_per_s: float | None
    batches_per_s: float | None
    mean_size: float | None
    fill: float | None
    waited_p50_ms: float | None
    waited_max_ms: float | None


@dataclass(frozen=True, slots=True)
class _Look:
    at_s: float
    answered: int
    failed: int
    rows: dict[str, int]
    batches: dict[str, int]


@dataclass(slots=True)
class Watch:
    """Remembers looks at one queue. Times are on the Redis clock."""

    _looks: deque[_Look] = field(default_factory=deque)
    _buses: dict[str, Bus] = field(default_factory=dict)

    def see(self, running: Running) -> None:
        """Take in the batches that are out; those not among them are back."""
        out = {batch.batch: batch for batch in running.batches}
        for name, bus in self._buses.items():
            if name not in out and not bus.is_back:
                self._buses[name] = Bus(bus.batch, bus.out_ms, is_back=True)
        for name, batch in out.items():
            known = self._buses.get(name)
            if known is not None and batch.waited_ms is None:  # its first row is answered; it had waited all the same
                batch = replace(batch, waited_ms=known.batch.waited_ms)
            self._buses[name] = Bus(batch, max(0.0, running.now_ms - batch.claimed_ms), is_back=False)
        while len(self._buses) > BUSES_KEPT:
            del self._buses[next(iter(self._buses))]

    def look(self, info: QueueInfo) -> Frame:
        """Take in what the queue says, and sum up."""
        look = _Look(
            info.now_ms / 1000,
            answered(info),
            info.counters.get("failed", 0),
            {worker.name: worker.rows_done for worker in info.workers},
            {worker.name: worker.batches_done for worker in info.workers},
        )
        self._looks.append(look)
        while look.at_s - self._looks[0].at_s > WINDOW_S and len(self._looks) > 2:
            self._looks.popleft()
        first, span_s = self._looks[0], look.at_s - self._looks[0].at_s
        batches = _grown(first.batches, look.batches)
        waits = [bus.batch.waited_ms for bus in self._buses.values() if bus.batch.waited_ms is not None]
        return Frame(
            info=info,
            buses=tuple(sorted(self._buses.values(), key=lambda bus: -bus.batch.claimed_ms)),
            answered_per_s=(look.answered - first.answered) / span_s if span_s > 0 else None,
            failed_per_s=(look.failed - first.failed) / span_s if span_s > 0 else None,
            batches_per_s=sum(batches.values()) / span_s if span_s > 0 else None,
            mean_size=_mean_size(_grown(first.rows, look.rows), batches),
            fill=_fill(info, _grown(first.rows, look.rows), batches),
            waited_p50_ms=percentile(waits, 0.5) if waits else None,
            waited_max_ms=max(waits, default=None),
        )


def _grown(before: dict[str, int], now: dict[str, int]) -> dict[str, int]:
    """What each worker added; one that came meanwhile, or started anew, counts from its start."""
    return {name: count - before.get(name, 0) if count >= before.get(name, 0) else count for name, count in now.items()}


def _mean_size(rows: dict[str, int], batches: dict[str, int]) -> float | None:
    total = sum(batches.values())
    return sum(rows.values()) / total if total else None


def _fill(info: QueueInfo, rows: dict[str, int], batches: dict[str, int]) -> float | None:
    seats = sum(batches[worker.name] * worker.max_batch_size for worker in info.workers)
    return sum(rows.values()) / seats if seats else None
