"""A token bucket: so many requests a second on average, so many at once."""

from __future__ import annotations

import time
from collections.abc import Callable


class Bucket:
    """Holds `burst` tokens at most and gets `rate_per_s` of them; each request takes one."""

    def __init__(self, rate_per_s: float, burst: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate_per_s = rate_per_s
        self.burst: float = burst
        self._clock = clock
        self._tokens = burst
        self._seen = clock()

    def take(self, count: int = 1, *, taken: int = 0) -> float:
        """Take `count` tokens, at most `burst`, or none. Returns 0, or the seconds until there are so many.

        `taken` of them were taken before, and are given back where there are not enough.
        """
        now = self._clock()
        self._tokens = min(self.burst, self._tokens + taken + (now - self._seen) * self._rate_per_s)
        self._seen = now
        if self._tokens >= count:
            self._tokens -= count
            return 0.0
        return (count - self._tokens) / self._rate_per_s
