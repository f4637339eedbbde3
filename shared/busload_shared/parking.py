"""Parked tickets: what is to be published once a request has its result. For the Celery door.

A ticket is parked, claimed by one of those who wake (then it is landing, under a lease), begun by one run, and settled.
Whatever dies on the way lets its lease run out, and the ticket is parked again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .queue import KNOWN_MS
from .scripted import Scripted

LISTENERS = "celery"
"""The reply token of all requests that come through Celery: every waker hears of their results."""


class Ticket(NamedTuple):
    """A parked ticket and the request whose result it is parked for."""

    name: str
    request_id: str


class Parking(Scripted):
    """The parked tickets of one queue. Every method may be repeated, and repeats itself while Redis is away."""

    async def park(
        self, ticket: Ticket, message: bytes, *, look_ms: float, ttl_s: float, again: bool = False, tell: bool = False
    ) -> bool:
        """Keep `message` under the ticket; its first look is in `look_ms`. False: it is landing already.

        `again` is for the run that lands it. `tell` lets wakers know at once, for a request they hear nothing of.
        """
        k = self.keys
        keys = [k.parked, k.landing, k.ticket(ticket.name)]
        ttl_ms = int(min(ttl_s * 1000, KNOWN_MS))
        channel = k.reply(LISTENERS) if tell else ""
        args = [self._now(), *ticket, message, look_ms, ttl_ms, "1" if again else "", channel]
        return bool(await self._run("park", keys, args))

    async def due(self, *, at_most: int, look_ms: float, ahead_ms: float = 0) -> list[Ticket]:
        """Tickets to look at now, those of landings that died among them; looked at again in `look_ms`."""
        k = self.keys
        keys = [k.parked, k.landing, k.ticket("")]
        found = await self._run("parked_due", keys, [self._now(), at_most, look_ms, ahead_ms])
        names = [word.decode("utf-8", "replace") for word in found]
        return [Ticket(*pair) for pair in zip(names[::2], names[1::2], strict=True)]

    async def claim(self, tickets: Sequence[Ticket], *, lease_ms: float) -> list[bytes]:
        """The messages of those tickets that are ours to publish now, empty for the others."""
        k = self.keys
        keys = [k.parked, k.landing, *(k.ticket(ticket.name) for ticket in tickets)]
        args = [self._now(), lease_ms, *(word for ticket in tickets for word in ticket)]
        return list(await self._run("parked_claim", keys, args))

    async def published(self, tickets: Sequence[Ticket], *, lease_ms: float) -> None:
        """Their messages are out: they have so long until a run begins, or they are published once more."""
        seconds, micros = await self._persist(self.redis.time)
        ends = seconds * 1000 + micros / 1000 + lease_ms
        scores = {ticket.name: ends for ticket in tickets}
        await self._persist(lambda: self.redis.zadd(self.keys.landing, scores, xx=True))

    async def begin(self, ticket: Ticket, runner: str, *, lease_ms: float) -> int:
        """Begin to hand over the result as `runner`. How often that was begun; 0 when it is not ours to do."""
        keys = [self.keys.landing, self.keys.ticket(ticket.name)]
        return int(await self._run("parked_begin", keys, [self._now(), *ticket, runner, lease_ms]))

    async def settle(self, name: str, request_id: str = "") -> bool:
        """Forget the ticket; with a request's id only if it is kept for that one."""
        k = self.keys
        return bool(await self._run("parked_settle", [k.parked, k.landing, k.ticket(name)], [name, request_id]))

    async def request_of(self, name: str) -> str | None:
        """The id of the request for which this ticket is kept."""
        found = await self._persist(lambda: self.redis.hget(self.keys.ticket(name), "request"))
        return None if found is None else found.decode("utf-8", "replace")

    async def counts(self) -> tuple[int, int]:
        """How many are parked, and how many are landing."""
        parked = await self._persist(lambda: self.redis.zcard(self.keys.parked))
        return int(parked), int(await self._persist(lambda: self.redis.zcard(self.keys.landing)))
