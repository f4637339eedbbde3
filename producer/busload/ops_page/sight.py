"""One look at the queues for all who watch: Redis is asked once a second at most, and only while somebody looks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from busload_shared.errors import BusloadError, BusloadUnavailable
from busload_shared.queue import Queue
from busload_shared.refusals import lacks_rights

from ..operating.watching import Frame, Watch, look_at

FRESH_S = 0.8
LOOK_S = 2.0
"""A Redis that takes longer is away."""
FORGET_S = 30.0
"""A rate over more than this would be none of now."""
BUSES_KEPT = 512

RIGHTS: Final = (
    "This page's Redis user may not see everything here, so ages, buses and dead letters are missing. Set "
    "BUSLOAD_GATEWAY_OPS_REDIS_URL to a user with the role operator or worker (docs/security.md)."
)


@dataclass(frozen=True, slots=True)
class Seen:
    """What was last seen of a queue: `frame` is None before the first look, `trouble` says why the last one failed, and
    `age_s` how old the frame is. `is_narrow` where the Redis user may not see everything."""

    queue: str
    frame: Frame | None
    trouble: str | None
    is_narrow: bool
    age_s: float


class Sight:
    """One queue."""

    def __init__(self, name: str, queue: Queue) -> None:
        self.queue: Queue = queue
        self._name = name
        self._watch = Watch(kept=BUSES_KEPT)
        self._frame: Frame | None = None
        self._trouble: str | None = None
        self._is_narrow = False
        self._seen_at = self._looked_at = -FORGET_S
        self._lock = asyncio.Lock()

    async def look(self) -> Seen:
        """What there is to see now, or was a moment ago."""
        async with self._lock:
            if time.monotonic() - self._looked_at > FRESH_S:
                await self._look()
                self._looked_at = time.monotonic()
        age_s = time.monotonic() - self._seen_at
        return Seen(self._name, self._frame, self._trouble, self._is_narrow, age_s)

    async def _look(self) -> None:
        if time.monotonic() - self._seen_at > FORGET_S:
            self._watch = Watch(kept=BUSES_KEPT)
        try:
            async with asyncio.timeout(LOOK_S):
                self._frame = await look_at(self.queue, self._watch)
                self._is_narrow = not await self._sees_letters()
        except TimeoutError:
            self._trouble = f"Redis does not answer within {LOOK_S:g} s: see that it runs and can be reached"
        except BusloadError as error:
            self._trouble = str(error)
        else:
            self._trouble, self._seen_at = None, time.monotonic()

    async def _sees_letters(self) -> bool:
        """Whoever may not read letters is a producer, and sees neither ages nor what is out."""
        try:
            await self.queue.dead_letters(start=1, count=0)  # none are read: whether it may
        except BusloadUnavailable as error:
            if lacks_rights(error):
                return False
            raise
        return True


class Sights:
    """All queues that the page shows. Each is opened at its first look; close them at the end."""

    def __init__(self, open_queue: Callable[[str], Queue]) -> None:
        self._open_queue = open_queue
        self._open: dict[str, Sight] = {}

    def of(self, queue: str) -> Sight:
        """The sight of this queue. Raises SettingsInvalid for a URL or a name that is none."""
        sight = self._open.get(queue)
        if sight is None:
            sight = self._open[queue] = Sight(queue, self._open_queue(queue))
        return sight

    async def look(self, queues: Sequence[str]) -> list[Seen]:
        """What is seen of each, in this order."""
        return list(await asyncio.gather(*(self.of(queue).look() for queue in queues)))

    async def close(self) -> None:
        """Disconnect from all."""
        sights, self._open = list(self._open.values()), {}
        await asyncio.gather(*(sight.queue.close() for sight in sights))
