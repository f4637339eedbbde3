"""A token bucket: so many requests a second on average, so many at once."""

from __future__ import annotations

import time
from collections.abc import Callable


class Bucket:
    """Holds `burst` tokens at most and gets `rate_per_s` of them; each request takes one."""

    def __init__(self, rate_per_s: float, burst: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate_per_s = rate_per_s
        self._burst = burst
        self._clock = clock
        self._tokens = burst
        self._seen = clock()

    def take(self) -> float:
        """Take a token. Returns 0, or the seconds until there is one."""
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._seen) * self._rate_per_s)
        self._seen = now
        if self._tokens >= 1:
            self._tokens -= 1
            return 0.0
        return (1 - self._tokens) / self._rate_per_s
