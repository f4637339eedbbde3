"""How likely the next request is to come now, learned from when requests came. Pure; the simulator runs it too.

The hazard at u is the rate of arrivals among the times at which nobody had come for u ms since the last event. Under
Poisson arrivals it is the same for every u. Where clients fan out, it is high shortly after an arrival; where they
answer an answer, it is high shortly after a batch's end. That is what makes a wait worth its while.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

Kind = Literal["arrival", "completion"]
"""What the time is counted from: the last arrival, or the end of this worker's last batch if nobody came since."""

MEMORY = 0.997
"""Weight of an arrival against the one after it: some three hundred are remembered."""

SHORTEST_MS = 0.25
STEPS_PER_DOUBLING = 2
LONGEST_MS = 600_000.0
EDGES_MS = tuple(
    SHORTEST_MS * 2 ** (k / STEPS_PER_DOUBLING)
    for k in range(math.ceil(math.log2(LONGEST_MS / SHORTEST_MS) * STEPS_PER_DOUBLING) + 1)
)
"""Where one bin ends and the next begins. What is longer than the last counts into the last bin."""

MOST_COMPLETIONS = 16
"""Batches remembered whose next arrival has not been seen."""

_RESCALE = 1e12


class Bin(NamedTuple):
    """One line of the table, for people: from and to ms since the event, arrivals in it, ms waited in it."""

    from_ms: float
    to_ms: float
    arrivals: float
    waited_ms: float


class Stretch(NamedTuple):
    """A stretch of time ahead: how long, how many arrivals were ever seen in its bin, and their rate per ms."""

    lasts_ms: float
    arrivals: float
    per_ms: float


class _Table:
    """Arrivals and waiting by bin. Instead of decaying all, what is new weighs ever more."""

    def __init__(self) -> None:
        bins = len(EDGES_MS) + 1
        self.events, self.exposure = [0.0] * bins, [0.0] * bins
        self.all_events, self.all_exposure = 0.0, 0.0

    def add(self, u_ms: float, weight: float, *, arrived: bool) -> None:
        last = bisect_left(EDGES_MS, u_ms)  # at an edge: in the bin that was waited through, not in the next
        start = 0.0
        for i in range(last):
            self.exposure[i] += weight * (EDGES_MS[i] - start)
            start = EDGES_MS[i]
        self.exposure[last] += weight * (u_ms - start)
        self.all_exposure += weight * u_ms
        if arrived:
            self.events[last] += weight
            self.all_events += weight

    def scale(self, factor: float) -> None:
        self.events = [value * factor for value in self.events]
        self.exposure = [value * factor for value in self.exposure]
        self.all_events, self.all_exposure = self.all_events * factor, self.all_exposure * factor


class Hazards:
    """Learned by one worker. Nothing is assumed before anything was seen: the hazard is then 0."""

    def __init__(self) -> None:
        self._tables: dict[Kind, _Table] = {"arrival": _Table(), "completion": _Table()}
        self._weight = 1.0
        self._last: tuple[float, Kind] | None = None
        self._newest_ms = -math.inf
        self._completions: list[float] = []

    def arrival(self, u_ms: float, kind: Kind) -> None:
        """A request came `u_ms` after the last event."""
        self._weight /= MEMORY
        if self._weight > _RESCALE:
            for table in self._tables.values():
                table.scale(1 / self._weight)
            self._weight = 1.0
        self._tables[kind].add(max(0.0, u_ms), self._weight, arrived=True)

    def waited(self, u_ms: float, kind: Kind) -> None:
        """Nobody came for `u_ms` after the last event; then another event ended that wait."""
        self._tables[kind].add(max(0.0, u_ms), self._weight, arrived=False)

    def observe(self, arrivals_ms: Sequence[float], completion_ms: float | None, *, gapless: bool = True) -> None:
        """Learn from when rows came, on the Redis clock: those of a claim, or all that were looked at for it.

        Tell each row once; one older than what was told before came back to the queue and does not count again.
        `completion_ms` is when this worker's last batch ended, on the same clock. `gapless` is false where others may
        have claimed rows between the last call's and these.
        """
        known = self._newest_ms
        if completion_ms is not None and completion_ms > max([known, *self._completions[-1:]]):
            self._completions = [*self._completions[-MOST_COMPLETIONS:], completion_ms]
        if not gapless:
            self._last = None
        for arrival in sorted(arrivals_ms):
            if arrival >= known:
                self._arrived(arrival)

    def _arrived(self, arrival: float) -> None:
        while self._completions and self._completions[0] <= arrival:
            self._event(self._completions.pop(0), "completion")
        self._event(arrival, "arrival")
        self._newest_ms = arrival

    def _event(self, at_ms: float, kind: Kind) -> None:
        if self._last is not None:
            since = at_ms - self._last[0]
            if kind == "arrival":
                self.arrival(since, self._last[1])
            else:
                self.waited(since, self._last[1])
        self._last = (at_ms, kind)

    def per_ms(self) -> float:
        """The mean rate of arrivals, whatever the time since the last event."""
        waited = sum(table.all_exposure for table in self._tables.values())
        return sum(table.all_events for table in self._tables.values()) / waited if waited > 0 else 0.0

    def ahead(self, u_ms: float, kind: Kind) -> Iterator[Stretch]:
        """The bins from `u_ms` on, as far as anybody ever waited."""
        table, start = self._tables[kind], u_ms
        for i in range(bisect_right(EDGES_MS, u_ms), len(EDGES_MS)):
            if table.exposure[i] <= 0:
                return
            yield Stretch(EDGES_MS[i] - start, table.events[i] / self._weight, table.events[i] / table.exposure[i])
            start = EDGES_MS[i]

    def table(self, kind: Kind) -> tuple[Bin, ...]:
        """What was learned, for people: the bins in which anybody waited."""
        table, w = self._tables[kind], self._weight
        edges = (0.0, *EDGES_MS, math.inf)
        return tuple(
            Bin(edges[i], edges[i + 1], table.events[i] / w, table.exposure[i] / w)
            for i in range(len(table.events))
            if table.exposure[i] > 0 or table.events[i] > 0
        )
