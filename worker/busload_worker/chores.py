"""How often one of so many workers does what any of them can do for the queue. Pure.

Few workers do it twice a second each. Many share it: each does it less often, at moments of its own, so that Redis is
asked about `ROUNDS_PER_S` times a second by all together. No worker leaves it for longer than `LONGEST_S`: should all
others die at once, the last one has done everything within that, though their records stay on the list for 15 s.
"""

from __future__ import annotations

TICK_S = 0.5
"""What a single worker takes for a round: lapsed leases and deadlines are noticed so soon."""

ROUNDS_PER_S = 16.0
LONGEST_S = 5.0

AUDIT_EVERY_S, AUDIT_LONGEST_S = 10.0, 300.0
"""An audit repairs what a hand has broken. It reads all batches, so that it costs more the more workers there are."""

BEATS_PER_S = 50.0
BEAT_LONGEST_S = 2.0
"""A worker's record lives for 15 s."""

JITTER = 0.4


def round_every_s(workers: int, *, lease_s: float) -> float:
    """Between two rounds of one worker. A quarter of a lease at most: an outage that nobody could renew in must not
    pass unnoticed."""
    return max(TICK_S, min(workers / ROUNDS_PER_S, LONGEST_S, lease_s / 4))


def audit_every_s(workers: int) -> float:
    """Between two audits of one worker."""
    return min(AUDIT_LONGEST_S, AUDIT_EVERY_S * max(1.0, workers / (TICK_S * ROUNDS_PER_S)))


def beat_every_s(workers: int) -> float:
    """Between two heartbeats of one worker whose state is the same."""
    return max(TICK_S, min(workers / BEATS_PER_S, BEAT_LONGEST_S))


def idle_look_every_s(workers: int) -> float:
    """Between two looks of an idle worker at a queue to which nobody comes: suspects of a dead worker ring no bell."""
    return max(TICK_S, min(workers / ROUNDS_PER_S, LONGEST_S))


def spread(every_s: float, chance: float, *, least_s: float) -> float:
    """The next pause, never longer than that; `chance` is from 0 to 1. Where it is longer than the least it varies, so
    that workers that started together do not stay together."""
    return every_s if every_s <= least_s else every_s * (1 - JITTER * chance)
