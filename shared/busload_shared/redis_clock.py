"""The Redis clock as an offset of this process's monotonic one: the one that all replies so far allow. Pure."""

from __future__ import annotations

from math import inf

DRIFT = 1e-4
"""How fast the two may part, s per s: ten times what a quartz does."""


class RedisClock:
    """Learned from replies that tell the time: Redis read its clock between the question and the reply.

    Each reply so bounds the offset, and the quickest bounds it best. A clock that was set, or another server's, breaks
    the bounds: then only the last reply counts.
    """

    def __init__(self) -> None:
        self._least, self._most = -inf, inf
        self._known_at = 0.0

    def read_at(self, now_ms: float, *, asked_at: float, heard_at: float) -> float:
        """When Redis read `now_ms` (Unix ms), on the monotonic clock, s, as are `asked_at` and `heard_at`."""
        now_s, drift_s = now_ms / 1000, DRIFT * (heard_at - self._known_at)
        earliest, latest = now_s - heard_at, now_s - asked_at
        least, most = max(self._least - drift_s, earliest), min(self._most + drift_s, latest)
        if least > most:
            least, most = earliest, latest
        self._least, self._most, self._known_at = least, most, heard_at
        return now_s - (least + most) / 2
