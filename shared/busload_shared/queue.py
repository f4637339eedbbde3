"""The queue: the only module that speaks to Redis about requests. One method per script, of the same name."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from .connection import LONGEST_BLOCK_S, is_transient, unavailable
from .element import Element
from .keys import Keys
from .mail import MailBag
from .noticeboard import Noticeboard
from .redis_clock import RedisClock
from .replies import (
    NO_CHOICE,
    CancelState,
    Choice,
    Claim,
    DeadLetter,
    Delivery,
    NotYet,
    Reclaimed,
    RequestStatus,
    Seat,
    State,
    Submitted,
)
from .result import Result
from .terms import Terms

KNOWN_MS = 604_800_000
"""A waiting request's state key lives for a week, as in lua/lib/common.lua."""

_NO_TERMS: Mapping[int, Terms] = {}

DEAD_LETTERS_KEPT = 10_000
"""Older dead letters are dropped; their error results are not."""


class Queue(Noticeboard):
    """One queue on one Redis. Times are Unix ms on the Redis clock; `now_ms` is for tests that hold the clock.

    Every method may be repeated after a lost reply, and repeats itself for `patience_s` seconds while Redis is
    away; then it raises BusloadUnavailable.
    """

    def __init__(self, redis: Redis, name: str, *, patience_s: float = 5.0) -> None:
        super().__init__(redis, Keys(name), patience_s=patience_s)
        self._clock = RedisClock()
        self._channels = self.keys.done("").removesuffix("done:")
        k = self.keys
        self._claim_keys = [
            name, k.retry, k.inflight, k.leases, k.batches, k.stats, k.state(""), k.result(""), k.cancel(""),
            k.ranked, k.deadlines,
        ]  # fmt: skip
        self._retry_keys = [k.inflight, k.leases, k.batches, k.retry, k.stats, k.state("")]

    @property
    def parts(self) -> tuple[Queue, ...]:
        """The queues that it is made of: see partitioned.py. Most are of one piece."""
        return (self,)

    async def submit(
        self,
        requests: Sequence[tuple[str, bytes]],
        *,
        limit: int,
        reply: str = "",
        terms: Mapping[int, Terms] = _NO_TERMS,
    ) -> Submitted:
        """Enqueue (id, JSON) pairs whose id is new while fewer than `limit` wait. `reply` names the client's
        channel for results; `terms` are those of the requests at these positions that have any."""
        k = self.keys
        keys = [k.queue, k.retry, k.inflight, k.ranked, k.deadlines]
        args: list[Any] = [self._now(), limit, reply]
        keys += [k.state(request_id) for request_id, _ in requests]
        keys += [k.result(request_id) for request_id, _ in requests]
        args += chain.from_iterable(requests)
        for position, (priority, deadline_ms, ttl_ms) in terms.items():
            args += (position + 1, priority, "" if deadline_ms is None else deadline_ms, ttl_ms or "")
        now, depth, states = await self._run("submit", keys, args)
        states = states or [b"queued"] * len(requests)
        return Submitted(float(now), depth, tuple(state.decode() for state in states))

    async def stamp(self) -> bool:
        """Give raw elements their arrival time; False when Redis has no memory for it."""
        k = self.keys
        keys = [k.queue, k.state(""), k.result(""), k.inflight, k.ranked, k.deadlines]
        return bool(await self._run("stamp", keys, [self._now()]))

    async def claim(  # noqa: PLR0913 - by name only, one for each argument of the script
        self,
        batch: str,
        *,
        worker: str,
        max_batch_size: int,
        max_wait_ms: float,
        lease_ms: float,
        drain: bool = False,
        keep_ms: int = KNOWN_MS,
        choice: Choice = NO_CHOICE,
    ) -> Claim | NotYet:
        """Claim a batch under the name `batch` if one leaves now. The same name again gives the same rows.

        For `keep_ms` from now an id whose result has expired is told from one that was never here. Of the `choice`
        those board that are still there; without one the oldest do.
        """
        args: list[Any] = [self._now(), batch, worker, max_batch_size, max_wait_ms, lease_ms, int(drain), keep_ms]
        args.append(int(choice.heavy))
        for pick in choice.picks:
            args += pick
        asked_at = time.monotonic()
        outcome, now, depth, *rest = await self._run("claim", self._claim_keys, args)
        read_at = self._clock.read_at(float(now), asked_at=asked_at, heard_at=time.monotonic())
        if outcome == b"wait":
            due, newest = (float(ms) if ms else None for ms in rest)
            return NotYet(float(now), depth, due, newest)
        trigger, claimed, rows = rest
        seats = tuple(
            Seat(index, Element.parse(element, latest_ms=float(now)), bool(flag))
            for index, flag, element in zip(rows[::3], rows[1::3], rows[2::3], strict=True)
        )
        return Claim(batch, float(now), float(claimed), depth, trigger.decode(), seats, read_at)

    async def peek(self, at_most: int) -> list[bytes]:
        """The oldest of the list as they stand there, oldest first. Changes nothing."""
        elements = await self._persist(lambda: self.redis.lrange(self.keys.queue, -at_most, -1))
        return list(reversed(elements))

    async def renew(self, batches: Sequence[str], *, lease_ms: float) -> list[bool]:
        """Renew the leases of `batches`; False for each that was lost."""
        reply = await self._run("renew", [self.keys.leases], [self._now(), lease_ms, *batches])
        return [bool(renewed) for renewed in reply]

    async def deliver(self, batch: str, rows: Sequence[Delivery], *, ttl_s: float) -> list[bool]:
        """Write the rows' results. False for each that was refused: it is no longer this batch's to answer."""
        k = self.keys
        keys = [k.inflight, k.leases, k.batches, k.stats, k.dead]
        bag, letters = MailBag(rows), []
        args: list[Any] = [batch, int(ttl_s * 1000), self._channels, DEAD_LETTERS_KEPT]
        for number, row in enumerate(rows, 1):
            keys.append(k.result(row.id))
            args += (row.position, row.id, row.status, bag.number(row), row.result)
            if row.letter:
                letters += [number, row.letter]
        args += bag.args()
        args += letters
        return [bool(written) for written in await self._run("deliver", keys, args)]

    async def reclaim(self, *, at_most: int = 16) -> list[Reclaimed]:
        """Take back batches whose lease ran out; their rows become suspects to run again."""
        reply = await self._run("reclaim", self._retry_keys, [self._now(), at_most])
        taken = zip(reply[::3], reply[1::3], reply[2::3], strict=True)
        return [
            Reclaimed(batch.decode("utf-8", "replace"), meta.decode("utf-8", "replace"), rows)
            for batch, meta, rows in taken
        ]

    async def release(self, batch: str, *, evidence: bool = True) -> int:
        """Give up a batch whose engine died: what is left of it becomes suspects. Returns rows put back. Without
        `evidence` a row that was alone has died once more, but not alone."""
        return int(await self._run("release", self._retry_keys, [batch, "" if evidence else "1"]))

    async def hand_back(self, batch: str) -> int:
        """Give up a batch on a graceful stop: rows go back in order, with their age. Returns rows put back."""
        k = self.keys
        keys = [k.queue, k.retry, k.inflight, k.leases, k.batches, k.state(""), k.stats]
        return int(await self._run("hand_back", keys, [batch]))

    async def audit(self, *, grace_ms: float) -> int:
        """Repair batches without a lease and rows without a batch; they run out after `grace_ms`."""
        k = self.keys
        return int(await self._run("audit", [k.inflight, k.leases, k.batches], [self._now(), grace_ms]))

    async def cancel(self, request_id: str, *, result: bytes, ttl_s: float) -> CancelState:
        """Cancel a request; `result` is the Result to write if it still waits."""
        k = self.keys
        keys = [
            k.result(request_id), k.state(request_id), k.cancel(request_id), k.queue, k.retry, k.inflight, k.stats,
            k.ranked,
        ]  # fmt: skip
        args = [request_id, result, int(ttl_s * 1000), self._channels]
        return (await self._run("cancel", keys, args)).decode()  # type: ignore[no-any-return]

    async def overdue(self, *, at_most: int = 64) -> list[str]:
        """Waiting requests whose deadline has passed, the longest overdue first."""
        ids: list[str] = []
        for raw in await self._run("overdue", [self.keys.deadlines], [self._now(), at_most]):
            try:
                ids.append(raw.decode())
            except UnicodeDecodeError:  # no Result could bear that id: its claim tells what is wrong
                await self._persist(partial(self.redis.zrem, self.keys.deadlines, raw))
        return ids

    async def expire(self, answers: Mapping[str, bytes], *, ttl_s: float) -> int:
        """Answer those of these requests that still wait with their `expired` Result. Returns how many did."""
        k = self.keys
        keys = [k.queue, k.retry, k.inflight, k.ranked, k.deadlines, k.stats]
        args: list[Any] = [int(ttl_s * 1000), self._channels]
        for request_id, result in answers.items():
            keys += (k.result(request_id), k.state(request_id))
            args += (request_id, result)
        return int(await self._run("expire", keys, args))

    async def cancels(self, request_ids: Sequence[str], *, batch: str = "") -> set[str]:  # noqa: ARG002
        """Which of these requests of a running batch somebody asked to cancel."""
        if not request_ids:
            return set()
        marks = await self._persist(lambda: self.redis.mget([self.keys.cancel(i) for i in request_ids]))
        return {name for name, mark in zip(request_ids, marks, strict=True) if mark}

    async def status(self, request_ids: Sequence[str]) -> list[RequestStatus]:
        """Where each request is, from one moment."""
        k = self.keys
        keys = [k.queue, k.retry, k.inflight, k.ranked]
        for request_id in request_ids:
            keys += (k.result(request_id), k.state(request_id))
        reply = await self._run("status", keys, [])
        return [_status(*pair) for pair in zip(reply[::2], reply[1::2], strict=True)]

    async def results(self, request_ids: Sequence[str]) -> list[bytes | None]:
        """The stored results, None where there is none."""
        if not request_ids:
            return []
        keys = [self.keys.result(request_id) for request_id in request_ids]
        return list(await self._persist(lambda: self.redis.mget(keys)))

    async def dead_letters(self, *, start: int = 0, count: int = 100) -> list[DeadLetter]:
        """Dead letters, newest first; what is none is left out."""
        letters = await self._persist(lambda: self.redis.lrange(self.keys.dead, start, start + count - 1))
        return [letter for raw in letters if (letter := DeadLetter.read(raw))]

    async def redrive(self, letter: DeadLetter) -> bool:
        """Put a dead letter back into the queue; False when somebody else did."""
        k, name = self.keys, letter.id or ""
        keys = [k.dead, k.queue, k.retry, k.inflight, k.result(name), k.state(name), k.ranked]
        args = [self._now(), letter.model_dump_json(), name, letter.payload_bytes]
        return bool(await self._run("redrive", keys, args))

    async def drop_dead(self, letter: DeadLetter) -> bool:
        """Drop one dead letter; its error result stays until it expires. False when somebody else did."""
        found = await self._persist(lambda: self.redis.lrem(self.keys.dead, -1, letter.model_dump_json()))
        return bool(found)

    async def purge_dead(self) -> int:
        """Drop all dead letters. Their error results stay until they expire. Returns how many went."""
        count = int(await self._persist(lambda: self.redis.llen(self.keys.dead)))
        await self._persist(lambda: self.redis.delete(self.keys.dead))
        return count

    async def wait_for_arrival(self, blocking: Redis, *, timeout_s: float) -> bool:
        """Block until somebody waits, without changing anything: the oldest moves onto its own place.

        `blocking` is a client of its own. False after `timeout_s` seconds, and at maxmemory, where Redis refuses
        the move though it changes nothing: then poll.
        """
        block_s = min(timeout_s, LONGEST_BLOCK_S)
        try:
            found = await blocking.execute_command(  # type: ignore[no-untyped-call]  # blmove() takes whole seconds
                "BLMOVE", self.keys.queue, self.keys.queue, "RIGHT", "RIGHT", block_s
            )
        except RedisError as error:
            if not is_transient(error):
                raise unavailable(error) from error
            return False
        return found is not None


def _status(state: bytes, detail: bytes) -> RequestStatus:
    name = state.decode()
    if name == "answered":
        return RequestStatus("answered", result=Result.model_validate_json(detail))
    if name == "running":
        return RequestStatus("running", batch=detail.decode())
    return RequestStatus(cast(State, name))
