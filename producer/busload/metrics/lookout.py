"""Looks at queues for whoever scrapes, from threads, however many scrape at once."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from busload_shared.errors import BusloadUnavailable
from busload_shared.opening import open_queue
from busload_shared.queue import Queue
from busload_shared.redis_memory import RedisMemory, redis_memory
from busload_shared.replies import QueueInfo

PATIENCE_S = 1.0
"""How long one look survives Redis being away."""

LONGEST_S = 4.0
"""No look takes longer, though Redis may accept a connection and say nothing: Prometheus waits 10 s for a scrape."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What was seen. `memory` is None when Redis did not answer, a queue's info when the queue could not be read."""

    memory: RedisMemory | None
    queues: dict[str, QueueInfo | None]


class Lookout:
    """One connection for all queues. Belongs to the event loop it was made in; `sight` is called from other threads."""

    def __init__(self, redis_url: str, queues: Sequence[str], *, kept_s: float, partitions: int = 1) -> None:
        """A sight is shown again for `kept_s` seconds. Raises SettingsInvalid for a wrong URL or name."""
        self._loop = asyncio.get_running_loop()
        most = 2 if partitions == 1 else None
        self._queues = [
            open_queue(redis_url, name, partitions=partitions, patience_s=PATIENCE_S, max_connections=most)
            for name in queues
        ]
        self._kept_s = kept_s
        self._lock = threading.Lock()
        self._last: tuple[float, Sight] | None = None

    def sight(self) -> Sight:
        """The queues as they are now, or were within `kept_s` seconds. Never raises for what Redis does."""
        with self._lock:
            if self._last is None or time.monotonic() - self._last[0] >= self._kept_s:
                seen = asyncio.run_coroutine_threadsafe(self._look(), self._loop).result()
                self._last = (time.monotonic(), seen)
            return self._last[1]

    async def _look(self) -> Sight:
        memory, infos = await asyncio.gather(self._memory(), asyncio.gather(*map(self._info, self._queues)))
        names = [queue.keys.queue for queue in self._queues]
        return Sight(memory, dict(zip(names, infos, strict=True)))

    async def _memory(self) -> RedisMemory | None:
        try:
            async with asyncio.timeout(LONGEST_S):
                return await redis_memory(self._queues[0].redis, patience_s=PATIENCE_S)
        except (BusloadUnavailable, TimeoutError):
            return None

    async def _info(self, queue: Queue) -> QueueInfo | None:
        try:
            async with asyncio.timeout(LONGEST_S):
                return await queue.info()
        except (BusloadUnavailable, TimeoutError):
            return None

    async def close(self) -> None:
        """Let go of Redis."""
        for queue in self._queues:
            await queue.close()
