"""Which layout a queue's keys have, and how a newer version changes it.

`{L}:layout` holds the layout's number, or `1>2` while a change is under way or was interrupted. Whatever else changes,
this key, `{L}:workers`, `{L}:worker:<name>` and the raw elements of `L` stay as they are.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from redis.asyncio import Redis

from .connection import persist
from .errors import BusloadUnavailable, RedisUnfit
from .keys import Keys
from .scripted import Scripted

FIRST = 1


@dataclass(frozen=True, slots=True)
class Step:
    """A change from one layout to the next; `what` says it for people. No worker runs while it is made.

    `convert` may be killed anywhere and is begun anew then, so it must leave alone what is new already.
    """

    what: str
    convert: Callable[[Redis, Keys], Awaitable[None]]


STEPS: tuple[Step, ...] = ()
"""The first leads from layout 1 to 2. A release that changes a key's type or what its values mean adds one."""

LEASE_S = 20.0
"""So long after a killed `busload migrate` the next one is refused."""


class Found(NamedTuple):
    """The layout of a queue. `under_way`: a change to the next one has begun, and has not ended."""

    layout: int
    under_way: bool = False


class Layout(Scripted):
    """The layout of one queue's keys. Raises BusloadUnavailable."""

    def __init__(
        self, redis: Redis, name: str, *, patience_s: float = 5.0, steps: Sequence[Step] | None = None
    ) -> None:
        super().__init__(redis, Keys(name), patience_s=patience_s)
        self._steps = STEPS if steps is None else steps

    @property
    def newest(self) -> int:
        """The layout that this version works on."""
        return FIRST + len(self._steps)

    async def find(self) -> Found:
        """What the queue has: the newest if it is new. Raises RedisUnfit for a mark that no version wrote."""
        return await self._marked() or await self._unmarked()

    async def check(self) -> None:
        """For a worker that starts. Raises RedisUnfit if the keys are not of the layout it works on."""
        found, name = await self._marked(), self.keys.queue
        if found is None:
            first = await self._unmarked()
            with contextlib.suppress(BusloadUnavailable):  # at maxmemory: then a later start marks it
                await persist(lambda: self.redis.set(self.keys.layout, first.layout, nx=True), patience_s=0)
            found = await self._marked() or first  # another may have been quicker
        if found.layout + found.under_way > self.newest:
            raise RedisUnfit(self._too_new(found))
        if found.under_way:
            raise RedisUnfit(f"the keys of {name} are being changed, or that was interrupted: run `busload migrate`")
        if found.layout < self.newest:
            raise RedisUnfit(
                f"the keys of {name} have layout {found.layout}, this worker needs {self.newest}: stop the older "
                "workers, then run `busload migrate`"
            )

    async def due(self) -> list[Step]:
        """The steps to the newest layout. Raises RedisUnfit if the keys are newer than this version."""
        found = await self.find()
        if found.layout + found.under_way > self.newest:
            raise RedisUnfit(self._too_new(found))
        return list(self._steps[found.layout - FIRST :])

    async def migrate(self, tell: Callable[[int, Step], None]) -> None:
        """Take the keys to the newest layout; `tell` hears of each step before it begins, and of the layout it leads
        to. May be killed and called again. Raises RedisUnfit while a worker lives, or another call is at work."""
        async with self._alone():
            for step in await self.due():
                found = await self.find()
                await self._refuse_if_served()
                await self._mark(f"{found.layout}>{found.layout + 1}")
                try:
                    await self._refuse_if_served()  # one that had looked at the mark before is on the list by now
                except RedisUnfit:
                    await self._mark(f"{found.layout}>{found.layout + 1}" if found.under_way else str(found.layout))
                    raise
                tell(found.layout + 1, step)
                await step.convert(self.redis, self.keys)
                await self._mark(str(found.layout + 1))

    async def _marked(self) -> Found | None:
        mark = await self._persist(lambda: self.redis.get(self.keys.layout))
        if mark is None:
            return None
        if not (read := re.fullmatch(rb"([1-9]\d{0,5})(>\d+)?", mark)):
            raise RedisUnfit(f"{self.keys.layout} holds no layout's number: write the one that it had before")
        return Found(int(read[1]), read[2] is not None)

    async def _unmarked(self) -> Found:
        """A queue that has anything is as old as the time before there were marks."""
        k = self.keys
        held = (k.queue, k.retry, k.ranked, k.inflight, k.leases, k.batches, k.dead, k.stats)
        return Found(FIRST if await self._persist(lambda: self.redis.exists(*held)) else self.newest)

    def _too_new(self, found: Found) -> str:
        return (
            f"the keys of {self.keys.queue} have layout {found.layout + found.under_way}, and this version of Busload "
            f"knows no more than {self.newest}: upgrade it"
        )

    async def _mark(self, text: str) -> None:
        await self._persist(lambda: self.redis.set(self.keys.layout, text))

    async def _refuse_if_served(self) -> None:
        names = await self._persist(lambda: self.redis.zrange(self.keys.workers, 0, -1))
        records = [self.keys.worker(name.decode("utf-8", "replace")) for name in names]
        told = await self._persist(lambda: self.redis.mget(records)) if records else []
        alive = [name.decode("utf-8", "replace") for name, record in zip(names, told, strict=True) if record]
        if alive:
            raise RedisUnfit(
                f"{len(alive)} workers of {self.keys.queue} are up ({', '.join(alive[:3])}): stop them first; one that "
                "was killed is off the list after 15 s"
            )

    @contextlib.asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """One call at a time. Should one lose its lease, asleep, that is what `Step` must allow for."""
        key, token = self.keys.migrating, secrets.token_hex(8)
        if not await self._persist(lambda: self.redis.set(key, token, nx=True, px=int(LEASE_S * 1000))):
            raise RedisUnfit(f"another `busload migrate` is at work, or was killed: try again in {LEASE_S:.0f} s")
        keeper = asyncio.create_task(self._keep_lease())
        try:
            yield
        finally:
            keeper.cancel()
            if await self._persist(lambda: self.redis.get(key)) == token.encode():
                await self._persist(lambda: self.redis.delete(key))

    async def _keep_lease(self) -> None:
        while True:
            await asyncio.sleep(LEASE_S / 4)
            with contextlib.suppress(BusloadUnavailable):  # the step itself will say so
                await self._persist(lambda: self.redis.pexpire(self.keys.migrating, int(LEASE_S * 1000)))
