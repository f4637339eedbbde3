"""What a worker learns from its batches, as its settings want it: lengths, which all workers share, and its wait."""

from __future__ import annotations

import time
from collections import defaultdict

from busload_shared.queue import Queue
from busload_shared.request import Request

from .auto_wait import AutoWait
from .engines.protocol import RowDone
from .lengths import KEYS, MEMORY, Lengths, Moments, key_of
from .settings import Settings

READ_EVERY_S = 5.0
KEPT_S = 30 * 86_400
"""A queue that nobody uses for so long forgets."""


class LengthKeeper:
    """`lengths` is what predictions are made from. Of what happens between two reads each worker knows its own part."""

    def __init__(self, queue: Queue) -> None:
        self.lengths = Lengths()
        self._queue = queue
        self._new: dict[str, list[float]] = defaultdict(list)
        self._read_at = 0.0

    def observe(self, request: Request, tokens: int) -> None:
        """An answer to this request had so many new tokens."""
        key = key_of(request)
        self._new[key].append(tokens)
        self.lengths.observe(key, tokens)

    async def share(self) -> None:
        """Tell the others, and now and then hear what they told. Raises BusloadUnavailable; nothing is lost then."""
        new = {key: Moments.of(lengths) for key, lengths in self._new.items()}
        if new:
            await self._queue.learn(new, kept_share=MEMORY, most_keys=KEYS, ttl_s=KEPT_S)
            for key, moments in new.items():
                del self._new[key][: int(moments.count)]
                if not self._new[key]:
                    del self._new[key]
        if time.monotonic() >= self._read_at:
            self._read_at = time.monotonic() + READ_EVERY_S
            for key, sums in (await self._queue.lengths()).items():
                self.lengths.put(key, Moments(*sums))


class Learner:
    """`lengths` are for `order = "length"`, `wait` is there for `max_wait_ms = "auto"`."""

    def __init__(self, queue: Queue, settings: Settings) -> None:
        self.lengths = LengthKeeper(queue)
        self.wait = AutoWait(cap_ms=settings.wait_cap_ms) if settings.max_wait_ms == "auto" else None
        self._by_length = settings.order == "length"

    @property
    def wanted(self) -> bool:
        """Whether rows are to be told at all: on the hot path not even a call is for nothing."""
        return self._by_length or self.wait is not None

    def row(self, request: Request, row: RowDone) -> None:
        """A row ended by itself."""
        if self._by_length:
            self.lengths.observe(request, row.usage.completion_tokens // request.n)
        if self.wait is not None:
            self.wait.row(row)

    async def share(self) -> None:
        """Exchange with the other workers. Raises BusloadUnavailable."""
        if self._by_length:
            await self.lengths.share()
