"""Wrong keys, counted by address: a key of the operators' own choice must not be found by trying."""

from __future__ import annotations

import time
from collections.abc import Callable

from ..gateway.bucket import Bucket

AT_ONCE = 10
PER_S = 0.1
ADDRESSES_KEPT = 1024


class Tries:
    """So many wrong keys at once from one address, then one every ten seconds. Behind a proxy all have one address."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: dict[str, Bucket] = {}

    def wait_s(self, address: str) -> float:
        """Seconds until this address may try again; 0: now."""
        bucket = self._buckets.get(address)
        if bucket is None:
            return 0.0
        wait_s = bucket.take()
        if not wait_s:
            bucket.take(0, taken=1)  # only to look
        return wait_s

    def failed(self, address: str) -> None:
        """It was a wrong key."""
        bucket = self._buckets.pop(address, None) or Bucket(PER_S, AT_ONCE, clock=self._clock)
        bucket.take()
        self._buckets[address] = bucket  # the newest stands last
        while len(self._buckets) > ADDRESSES_KEPT:
            del self._buckets[next(iter(self._buckets))]
