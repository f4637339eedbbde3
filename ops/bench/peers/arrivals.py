"""When the requests of an open loop are due; pure, and the same for every peer that is given the same seed."""

from __future__ import annotations

import random
from collections.abc import Iterator


def arrivals(*, seed: int, rate: float, spread: float, until_s: float) -> Iterator[float]:
    """Seconds from the start, the last one at or after `until_s`.

    `spread` 1 draws Poisson arrivals, less draws gaps within that share of the mean gap.
    """
    draw, due = random.Random(seed), 0.0
    while due < until_s:
        gap = draw.expovariate(1) if spread == 1 else 1 + draw.uniform(-1, 1) * spread
        due += gap / rate
        yield due
