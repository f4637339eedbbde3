"""A histogram of plain numbers: cheap to add to, and read by another thread without a lock."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import accumulate
from math import inf

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""From a call to Redis to a batch of long answers."""

TOKENS = (64.0, 256.0, 1024.0, 4096.0, 16_384.0, 65_536.0, 262_144.0)
SHARES = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0)


class Histogram:
    """Counts of values up to each bound, the last one without a bound, and their sum."""

    __slots__ = ("_bounds", "_counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = (*bounds, inf)
        self._counts = [0] * len(self._bounds)
        self.total: float = 0.0

    def add(self, value: float) -> None:
        """Count one value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def add_all(self, values: Iterable[float]) -> None:
        """Count several values at once: cheaper than one by one where they fall into few buckets."""
        rising, counts, below = sorted(values), self._counts, 0
        for place, bound in enumerate(self._bounds):
            if below == len(rising):
                break
            through = bisect_right(rising, bound, below)
            counts[place] += through - below
            below = through
        self.total += sum(rising)

    def buckets(self) -> list[tuple[str, float]]:
        """As Prometheus wants them: upper bound, and how many values are no greater."""
        sums = accumulate(self._counts[:])
        return [
            ("+Inf" if bound == inf else str(bound), float(count))
            for bound, count in zip(self._bounds, sums, strict=True)
        ]
