"""When the demo's requests come: uneven, as people and jobs are."""

from __future__ import annotations

import random


def arrival_times(count: int, *, seed: int) -> list[float]:
    """Seconds from the start for each of `count` requests, ascending; the same seed gives the same times.

    Bursts that fill a batch of 8 and trickles that do not take turns, with a lull after each.
    """
    draw = random.Random(seed)
    times: list[float] = []
    now = 0.0
    burst = True
    while len(times) < count:
        size = draw.randint(9, 13) if burst else draw.randint(1, 4)
        gap_s = 0.02 if burst else 0.12
        for _ in range(min(size, count - len(times))):
            times.append(now)
            now += draw.expovariate(1 / gap_s)
        now += draw.uniform(1.5, 2.5) if burst else draw.uniform(0.8, 1.6)
        burst = not burst
    return times
