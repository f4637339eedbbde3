"""Counts of the last buses by fill, wait, run and held time. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from ..operating.watching import Bus
from .figures import counted, span

FILL_BOUNDS = (0.25, 0.5, 0.75, 0.999)
_FILL_LABELS = ("to 25 %", "to 50 %", "to 75 %", "under 100 %", "full")
MS_BOUNDS = (1.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1_000.0, 2_500.0, 5_000.0, 10_000.0, 30_000.0, 60_000.0)


@dataclass(frozen=True, slots=True)
class Bar:
    """How many; `percent` is of the longest bar, for its length."""

    label: str
    count: int
    percent: float


@dataclass(frozen=True, slots=True)
class Histogram:
    """`summary` says the same in a sentence; `about` what is counted."""

    key: str
    title: str
    about: str
    bars: tuple[Bar, ...]
    summary: str


def histograms(buses: Sequence[Bus], seats: dict[str, int]) -> tuple[Histogram, ...]:
    """Of buses that are back, and of which there is something to count. `seats` are those of each worker's bus."""
    back = [bus for bus in buses if bus.is_back]
    past = [bus.past for bus in back if bus.past is not None]
    fills = [min(1.0, bus.batch.size / most) for bus in back if (most := seats.get(bus.batch.worker, 0))]
    waits = [bus.batch.waited_ms for bus in back if bus.batch.waited_ms is not None]
    held = [one.held_ms for one in past]
    return (
        _of_fills(fills),
        _of_times("wait", "Wait", "how long the first had waited when its bus left", waits),
        _of_times("run", "Run", "a bus's time in the engine", [one.run_ms for one in past]),
        _of_held(held),
    )


def _of_fills(fills: Sequence[float]) -> Histogram:
    counts = [0] * len(_FILL_LABELS)
    for fill in fills:
        counts[bisect_left(FILL_BOUNDS, fill)] += 1
    mean = f"mean {sum(fills) / len(fills):.0%}".replace("%", " %") if fills else "no bus is back yet"
    return Histogram("fill", "Fill", "seats that were taken", _bars(_FILL_LABELS, counts), mean)


def _of_held(held: Sequence[float]) -> Histogram:
    about = "the longest that an answer was kept back for the others"
    if held and max(held) == 0:
        said = f"0 in all {counted(len(held), 'bus', 'buses')}: each answer leaves when its row ends"
        return Histogram("held", "Held", about, (), said)
    return _of_times("held", "Held", about, held)


def _of_times(key: str, title: str, about: str, times_ms: Sequence[float]) -> Histogram:
    if not times_ms:
        return Histogram(key, title, about, (), "no bus is back yet")
    counts = [0] * (len(MS_BOUNDS) + 1)
    for time_ms in times_ms:
        counts[bisect_left(MS_BOUNDS, time_ms)] += 1
    labels = [f"to {_bound(bound)}" for bound in MS_BOUNDS] + [f"over {_bound(MS_BOUNDS[-1])}"]
    seen = [place for place, number in enumerate(counts) if number]
    first, last = seen[0], seen[-1] + 1
    rising = sorted(times_ms)
    summary = f"median {span(rising[len(rising) // 2])}, longest {span(rising[-1])}"
    return Histogram(key, title, about, _bars(labels[first:last], counts[first:last]), summary)


def _bars(labels: Sequence[str], counts: Sequence[int]) -> tuple[Bar, ...]:
    longest = max(counts, default=0)
    if not longest:
        return ()
    return tuple(
        Bar(label, number, round(100 * number / longest, 1)) for label, number in zip(labels, counts, strict=True)
    )


def _bound(ms: float) -> str:
    return f"{ms:g} ms" if ms < 1000 else f"{ms / 1000:g} s"
