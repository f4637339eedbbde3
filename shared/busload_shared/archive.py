"""Reads results and where requests are, for those who may only read: plain GETs, no script, nothing is written."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from redis.asyncio import Redis

from .errors import BusloadUnavailable
from .keys import Keys
from .replies import State
from .scripted import Scripted

SCANNED_AT_ONCE = 1000
"""Keys that Redis looks at in one SCAN: about a millisecond of its time."""


class Seen(NamedTuple):
    """Where a request is; `stored` is its Result as JSON when answered. `state` is None where it cannot be told."""

    state: State | None
    stored: bytes | None = None


class Archive(Scripted):
    """The results of one queue. A request that moves while it is asked about may be told where it was or where it is,
    and never as lost. Raises BusloadUnavailable."""

    def __init__(self, redis: Redis, name: str, *, patience_s: float = 5.0) -> None:
        super().__init__(redis, Keys(name), patience_s=patience_s)
        self.reads_states: bool = True
        """False once Redis has refused this user the keys that tell an unknown request from a waiting one."""

    async def look(self, request_ids: Sequence[str]) -> list[Seen]:
        """Where each request is, in the order of the ids. Give a few hundred at a time."""
        if not request_ids:
            return []
        if self.reads_states:
            try:
                return await self._look(request_ids)
            except BusloadUnavailable as error:
                if "ACL" not in str(error):
                    raise
                self.reads_states = False
        stored = await self._get([self.keys.result(request_id) for request_id in request_ids])
        return [Seen("answered", body) if body is not None else Seen(None) for body in stored]

    async def ids(self, pattern: str) -> AsyncIterator[list[str]]:
        """The ids of results whose id fits a glob pattern, a page at a time; one may come twice. Walks all keys of the
        whole Redis, a thousand at a time; needs the right to SCAN."""
        prefix = self.keys.result("")
        cursor = 0
        while True:
            match = _literal(prefix) + pattern
            cursor, found = await self._scan(cursor, match)
            yield [key.decode("utf-8", "replace").removeprefix(prefix) for key in found]
            if not cursor:
                return

    async def size(self) -> int | None:
        """Keys there are in this Redis, None where this user may not know."""
        try:
            return int(await self._persist(self.redis.dbsize))
        except BusloadUnavailable:
            return None

    async def _scan(self, cursor: int, match: str) -> tuple[int, list[bytes]]:
        async def scan() -> tuple[int, list[bytes]]:
            return await self.redis.scan(cursor, match=match, count=SCANNED_AT_ONCE, _type="STRING")  # type: ignore[return-value]

        reply: tuple[int, list[bytes]] = await self._persist(scan)
        return reply

    async def _look(self, request_ids: Sequence[str]) -> list[Seen]:
        k = self.keys
        keys = [key for request_id in request_ids for key in (k.result(request_id), k.state(request_id))]
        found = await self._get(keys)
        seen = [_first_look(*pair) for pair in zip(found[::2], found[1::2], strict=True)]
        ran = [at for at, one in enumerate(seen) if one.state == "running"]
        if not ran:
            return seen
        in_flight = await self._in_flight([found[2 * at + 1] or b"" for at in ran])
        gone = [at for at, here in zip(ran, in_flight, strict=True) if not here]
        again = await self._get([k.result(request_ids[at]) for at in gone]) if gone else []
        for at, stored in zip(gone, again, strict=True):  # answered meanwhile, or long ago
            seen[at] = Seen("answered", stored) if stored is not None else Seen("expired")
        return seen

    async def _in_flight(self, states: Sequence[bytes]) -> list[bool]:
        """Whether the rows that these states name are in flight still."""

        async def ask() -> list[int]:
            pipeline = self.redis.pipeline(transaction=False)
            for state in states:
                pipeline.hexists(self.keys.inflight, state[2:].decode("utf-8", "surrogateescape"))
            return list(await pipeline.execute())

        return [bool(here) for here in await self._persist(ask)]

    async def _get(self, keys: Sequence[str]) -> list[bytes | None]:
        return list(await self._persist(lambda: self.redis.mget(keys)))


def _first_look(stored: bytes | None, state: bytes | None) -> Seen:
    if stored is not None:
        return Seen("answered", stored)
    if state is None:
        return Seen("unknown")
    if state.startswith(b"w"):
        return Seen("waiting")
    return Seen("running" if state.startswith(b"r ") else "expired")


def _literal(text: str) -> str:
    """A text as a glob pattern that fits itself only."""
    return re.sub(r"([\[\]*?^\\-])", r"\\\1", text)
