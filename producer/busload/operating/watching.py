"""What is worth watching of a queue, from looks at it one after another: rates, fill, the buses that left."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from busload_shared.past_batch import PastBatch
from busload_shared.queue import Queue
from busload_shared.replies import QueueInfo, Running, RunningBatch

from ..demo.summary import percentile
from .draining import answered

WINDOW_S = 10.0
"""Rates are those of so long."""

BUSES_KEPT = 50

ASKED = 64
"""So many workers are asked for their past at most: of more there are buses enough to see."""

_NOTHING: Mapping[str, Sequence[PastBatch]] = {}


@dataclass(frozen=True, slots=True)
class Bus:
    """A batch that was seen while it was out, or of which its worker told. `is_back` once it is no more; `out_ms` is
    how long it was seen out. `past` is what its worker told of it; None before, and where an old worker tells nothing.
    """

    batch: RunningBatch
    out_ms: float
    is_back: bool
    past: PastBatch | None = None


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
    """Remembers looks at one queue, and its last `kept` buses. Times are on the Redis clock."""

    kept: int = BUSES_KEPT
    _looks: deque[_Look] = field(default_factory=deque)
    _buses: dict[str, Bus] = field(default_factory=dict)

    def see(self, running: Running) -> None:
        """Take in the batches that are out; those not among them are back."""
        out = {batch.batch: batch for batch in running.batches}
        for name, bus in self._buses.items():
            if name not in out and not bus.is_back:
                self._buses[name] = replace(bus, is_back=True)
        for name, batch in out.items():
            known = self._buses.get(name)
            if known is not None and known.past is not None:
                continue  # its run is over, and only its last answers are under way
            if known is not None and batch.waited_ms is None:  # its first row is answered; it had waited all the same
                batch = replace(batch, waited_ms=known.batch.waited_ms)
            self._buses[name] = Bus(batch, max(0.0, running.now_ms - batch.claimed_ms), is_back=False)
        self._forget()

    def look(self, info: QueueInfo, past: Mapping[str, Sequence[PastBatch]] = _NOTHING) -> Frame:
        """Take in what the queue says, and what workers tell of their last batches, and sum up."""
        for worker, told in past.items():
            self._hear(worker, told)
        self._forget()
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

    def _hear(self, worker: str, batches: Sequence[PastBatch]) -> None:
        """Of buses too short to be seen out, only their workers tell."""
        for past in batches:
            batch = RunningBatch(
                past.batch, past.size, past.trigger, past.claimed_ms, worker, past.unanswered, past.waited_ms
            )
            self._buses[past.batch] = Bus(batch, max(0.0, past.ended_ms - past.claimed_ms), is_back=True, past=past)

    def _forget(self) -> None:
        oldest_first = sorted(self._buses, key=lambda name: self._buses[name].batch.claimed_ms)
        for name in oldest_first[: -self.kept]:
            del self._buses[name]


async def look_at(queue: Queue, watch: Watch) -> Frame:
    """Ask the queue, and take in what it says. Raises BusloadUnavailable."""
    watch.see(await queue.running())
    info = await queue.info()
    return watch.look(info, await queue.past([worker.name for worker in info.workers[:ASKED]]))


def _grown(before: dict[str, int], now: dict[str, int]) -> dict[str, int]:
    """What each worker added; one that came meanwhile, or started anew, counts from its start."""
    return {name: count - before.get(name, 0) if count >= before.get(name, 0) else count for name, count in now.items()}


def _mean_size(rows: dict[str, int], batches: dict[str, int]) -> float | None:
    total = sum(batches.values())
    return sum(rows.values()) / total if total else None


def _fill(info: QueueInfo, rows: dict[str, int], batches: dict[str, int]) -> float | None:
    seats = sum(batches[worker.name] * worker.max_batch_size for worker in info.workers)
    return sum(rows.values()) / seats if seats else None
