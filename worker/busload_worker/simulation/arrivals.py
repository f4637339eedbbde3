"""When requests come. Each law says when the first ones come, and what comes after an answer."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import Protocol


class Source(Protocol):
    """Arrivals of one run, in the order of time."""

    def next_ms(self) -> float:
        """When the next request comes; infinity when none will unless somebody is answered."""

    def pop(self) -> float:
        """That one has come."""

    def claimed(self, at_ms: float) -> None:
        """Somebody boards now."""

    def answered(self, at_ms: float) -> None:
        """Somebody has an answer at this moment, now or later."""


class Arrivals(Protocol):
    """A law of arrivals."""

    def source(self, requests: int, rng: Random) -> Source:
        """The arrivals of one run of so many requests."""


class _Listed:
    """Arrivals that depend on nothing."""

    def __init__(self, times: Iterator[float], requests: int) -> None:
        self._times = islice(times, requests)
        self._next = next(self._times, math.inf)

    def next_ms(self) -> float:
        return self._next

    def pop(self) -> float:
        at, self._next = self._next, next(self._times, math.inf)
        return at

    def claimed(self, at_ms: float) -> None:
        """They come all the same."""

    answered = claimed


@dataclass(frozen=True, slots=True)
class Poisson:
    """Requests that know nothing of each other."""

    per_s: float

    def source(self, requests: int, rng: Random) -> Source:
        return _Listed(self._times(rng), requests)

    def _times(self, rng: Random) -> Iterator[float]:
        at, per_ms = 0.0, self.per_s / 1000
        while True:
            at += rng.expovariate(per_ms)
            yield at


@dataclass(frozen=True, slots=True)
class Bursts:
    """Fan-out: at random moments a burst of requests, spread evenly at random over `spread_ms`. A burst has `rows` of
    them in the mean, geometrically distributed, or exactly so many where `exact`."""

    per_s: float
    rows: float
    spread_ms: float
    exact: bool = False

    def source(self, requests: int, rng: Random) -> Source:
        return _Listed(self._times(rng), requests)

    def _times(self, rng: Random) -> Iterator[float]:
        """Bursts overlap, so arrivals wait in a heap until no burst can begin before them."""
        waiting: list[float] = []
        start, bursts_per_ms = 0.0, self.per_s / 1000 / self.rows
        while True:
            start += rng.expovariate(bursts_per_ms)
            while waiting and waiting[0] <= start:
                yield heapq.heappop(waiting)
            for _ in range(self._size(rng)):
                heapq.heappush(waiting, start + rng.random() * self.spread_ms)

    def _size(self, rng: Random) -> int:
        if self.exact or self.rows <= 1:
            return max(1, round(self.rows))
        return 1 + int(math.log(1 - rng.random()) / math.log(1 - 1 / self.rows))


@dataclass(frozen=True, slots=True)
class Mmpp:
    """Busy and quiet times in turn, each Poisson at its own rate, each of exponential length."""

    busy_per_s: float
    quiet_per_s: float
    busy_ms: float
    quiet_ms: float

    def source(self, requests: int, rng: Random) -> Source:
        return _Listed(self._times(rng), requests)

    def _times(self, rng: Random) -> Iterator[float]:
        at, busy = 0.0, True
        while True:
            ends = at + rng.expovariate(1 / (self.busy_ms if busy else self.quiet_ms))
            per_ms = (self.busy_per_s if busy else self.quiet_per_s) / 1000
            while per_ms > 0:
                at += rng.expovariate(per_ms)
                if at > ends:
                    break
                yield at
            at, busy = ends, not busy


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests at these times, ms; from the beginning again if they are too few."""

    times_ms: Sequence[float]

    def source(self, requests: int, rng: Random) -> Source:  # noqa: ARG002 - nothing here is random
        return _Listed(self._times(), requests)

    def _times(self) -> Iterator[float]:
        times = sorted(self.times_ms)
        if not times:
            return
        lap = times[-1] - times[0] + (times[-1] - times[0]) / max(1, len(times) - 1)
        turn = 0
        while True:
            yield from (at - times[0] + turn * lap for at in times)
            turn += 1
            if lap <= 0:
                return


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """So many clients, each of which sends its next request some time after it got an answer: `think_ms` in the mean,
    exponentially distributed, or exactly that where `exact`."""

    clients: int
    think_ms: float
    exact: bool = False

    def source(self, requests: int, rng: Random) -> Source:
        return _Closed(self, requests, rng)

    def draw(self, rng: Random) -> float:
        """One pause for thought."""
        return self.think_ms if self.exact or self.think_ms <= 0 else rng.expovariate(1 / self.think_ms)


class _Closed:
    def __init__(self, law: ClosedLoop, requests: int, rng: Random) -> None:
        self._law, self._left, self._rng = law, requests, rng
        self._times = sorted(law.draw(rng) for _ in range(law.clients))

    def next_ms(self) -> float:
        return self._times[0] if self._times and self._left else math.inf

    def pop(self) -> float:
        self._left -= 1
        return heapq.heappop(self._times)

    def claimed(self, at_ms: float) -> None:
        """Clients wait for the answer."""

    def answered(self, at_ms: float) -> None:
        heapq.heappush(self._times, at_ms + self._law.draw(self._rng))


@dataclass(frozen=True, slots=True)
class Backlog:
    """There are always `rows` waiting: whenever one is claimed, another comes."""

    rows: int

    def source(self, requests: int, rng: Random) -> Source:  # noqa: ARG002 - nothing here is random
        return _Saturated(self.rows, requests)


class _Saturated:
    def __init__(self, rows: int, requests: int) -> None:
        self._times, self._left = [0.0] * rows, requests

    def next_ms(self) -> float:
        return self._times[0] if self._times and self._left else math.inf

    def pop(self) -> float:
        self._left -= 1
        return heapq.heappop(self._times)

    def claimed(self, at_ms: float) -> None:
        heapq.heappush(self._times, at_ms)

    def answered(self, at_ms: float) -> None:
        """It was replaced when it was claimed."""
