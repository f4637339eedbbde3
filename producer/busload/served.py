"""Whether the workers serve all partitions that this side sends to."""

from __future__ import annotations

import time

from busload_shared.errors import BusloadUnavailable, SettingsInvalid
from busload_shared.queue import Queue

LOOK_AGAIN_S = 60.0


class Served:
    """Asks now and then, while requests are sent to a queue of several partitions."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._look_at: dict[Queue, float] = {}

    async def check(self, part: Queue) -> None:
        """Raises SettingsInvalid when the workers are there and do not serve this partition: what is sent to it would
        wait for ever. While no worker is up nobody knows."""
        if len(self._queue.parts) == 1 or time.monotonic() < self._look_at.get(part, 0.0):
            return
        try:
            if not (await part.info()).workers:
                await self._check_the_others()
        except BusloadUnavailable:
            return  # the submit that follows tells it, if it concerns it
        self._look_at[part] = time.monotonic() + LOOK_AGAIN_S

    async def _check_the_others(self) -> None:
        count = len(self._queue.parts)
        workers = (await self._queue.parts[0].info()).workers
        most = max((worker.partitions for worker in workers), default=count)
        if most < count:
            raise SettingsInvalid(
                f"partitions={count}: the workers of {self._queue.keys.queue} serve {most}. Start them with "
                f"BUSLOAD_PARTITIONS={count} first, or write partitions={most} here"
            )
