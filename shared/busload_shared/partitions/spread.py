"""Asks the partitions of a queue, and puts together what they tell."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from ..past_batch import PastBatch
from ..queue import Queue
from ..replies import CancelState, DeadLetter, QueueInfo, Reclaimed, RequestStatus, Running, Submitted
from ..terms import Terms
from .homes import partition_of
from .merged import merged_info, merged_running, newest_first

T = TypeVar("T")

_NO_TERMS: Mapping[int, Terms] = {}


class SpreadQueue(Queue):
    """Several partitions as one queue, for all but those who claim. What concerns one request goes to the partition
    that its id says. What is asked of several is not from one moment, and needs all of them to answer."""

    def __init__(self, parts: Sequence[Queue], *, patience_s: float) -> None:
        self._parts: tuple[Queue, ...] = ()
        super().__init__(parts[0].redis, parts[0].keys.queue, patience_s=patience_s)
        self._parts = tuple(parts)

    @property
    def parts(self) -> tuple[Queue, ...]:
        """The partitions, by number."""
        return self._parts

    @property
    def now_ms(self) -> float | None:
        """For tests that hold the clock: of all partitions."""
        return self._held_ms

    @now_ms.setter
    def now_ms(self, now_ms: float | None) -> None:
        self._held_ms = now_ms
        for part in self._parts:
            part.now_ms = now_ms

    def number_of(self, request_id: str) -> int:
        """The number of the partition this request belongs to."""
        return partition_of(request_id, len(self._parts))

    def _home(self, request_id: str) -> Queue:
        return self._parts[self.number_of(request_id)]

    async def _all(self, ask: Callable[[Queue], Awaitable[T]]) -> list[T]:
        """Ask all partitions at once. Raises BusloadUnavailable if any does not answer, once all have been asked."""
        told = await asyncio.gather(*map(ask, self._parts), return_exceptions=True)
        return [result_or_raise(one) for one in told]

    async def _by_home(self, ids: Sequence[str], ask: Callable[[Queue, list[int]], Awaitable[Sequence[T]]]) -> list[T]:
        """Ask each partition about the ids (by position) that belong to it; the replies in the order of the ids."""
        groups: dict[int, list[int]] = {}
        for position, request_id in enumerate(ids):
            groups.setdefault(self.number_of(request_id), []).append(position)
        asking = (ask(self._parts[number], group) for number, group in groups.items())
        told = await asyncio.gather(*asking, return_exceptions=True)
        found: dict[int, T] = {}
        for group, replies in zip(groups.values(), told, strict=True):
            found |= zip(group, result_or_raise(replies), strict=True)
        return [found[position] for position in range(len(ids))]

    async def submit(
        self,
        requests: Sequence[tuple[str, bytes]],
        *,
        limit: int,
        reply: str = "",
        terms: Mapping[int, Terms] = _NO_TERMS,
    ) -> Submitted:
        """Enqueue each in its partition. A partition is full when it has its share of `limit`."""
        share = share_of(limit, len(self._parts))
        clocks: list[float] = []
        depths: list[int] = []

        async def send(part: Queue, group: list[int]) -> Sequence[Any]:
            own = {at: terms[position] for at, position in enumerate(group) if position in terms}
            sent = await part.submit([requests[at] for at in group], limit=share, reply=reply, terms=own)
            clocks.append(sent.now_ms)
            depths.append(sent.depth)
            return sent.states

        states = await self._by_home([request_id for request_id, _ in requests], send)
        return Submitted(max(clocks, default=0.0), sum(depths), tuple(states))

    async def stamp(self) -> bool:
        """Stamp all partitions."""
        return all(await self._all(Queue.stamp))

    async def peek(self, at_most: int) -> list[bytes]:
        """Of every partition so many."""
        return [element for part in await self._all(lambda part: part.peek(at_most)) for element in part]

    async def reclaim(self, *, at_most: int = 16) -> list[Reclaimed]:
        """In all partitions, so many in each."""
        return [one for taken in await self._all(lambda part: part.reclaim(at_most=at_most)) for one in taken]

    async def audit(self, *, grace_ms: float) -> int:
        """In all partitions."""
        return sum(await self._all(lambda part: part.audit(grace_ms=grace_ms)))

    async def cancel(self, request_id: str, *, result: bytes, ttl_s: float) -> CancelState:
        """In the request's partition."""
        return await self._home(request_id).cancel(request_id, result=result, ttl_s=ttl_s)

    async def overdue(self, *, at_most: int = 64) -> list[str]:
        """Of all partitions, so many of each."""
        return [one for ids in await self._all(lambda part: part.overdue(at_most=at_most)) for one in ids]

    async def expire(self, answers: Mapping[str, bytes], *, ttl_s: float) -> int:
        """In whichever partition they wait."""
        return sum(await self._all(lambda part: part.expire(answers, ttl_s=ttl_s)))

    async def status(self, request_ids: Sequence[str]) -> list[RequestStatus]:
        """Those of one partition from one moment."""
        return await self._by_home(request_ids, lambda part, group: part.status([request_ids[at] for at in group]))

    async def results(self, request_ids: Sequence[str]) -> list[bytes | None]:
        """From their partitions."""
        return await self._by_home(request_ids, lambda part, group: part.results([request_ids[at] for at in group]))

    async def dead_letters(self, *, start: int = 0, count: int = 100) -> list[DeadLetter]:
        """Of all partitions, newest first; a negative start counts from the oldest."""
        known = start + count if start >= 0 else -start
        first = 0 if start >= 0 else start
        letters = newest_first(await self._all(lambda part: part.dead_letters(start=first, count=known)))
        return letters[start : start + count] if start >= 0 else letters[start:][:count]

    async def redrive(self, letter: DeadLetter) -> bool:
        """In the partition that has it."""
        return any(await self._all(lambda part: part.redrive(letter)))

    async def drop_dead(self, letter: DeadLetter) -> bool:
        """In the partition that has it."""
        return any(await self._all(lambda part: part.drop_dead(letter)))

    async def purge_dead(self) -> int:
        """In all partitions."""
        return sum(await self._all(Queue.purge_dead))

    async def info(self) -> QueueInfo:
        """All partitions together, asked at nearly the same moment."""
        return merged_info(self.keys.queue, await self._all(Queue.info))

    async def running(self, *, at_most: int = 256) -> Running:
        """Of all partitions, so many of each."""
        return merged_running(await self._all(lambda part: part.running(at_most=at_most)))

    async def tell_past(self, worker: str, past: Sequence[PastBatch], *, ttl_s: float) -> None:
        """In partition 0, whose server it is that watchers ask."""
        await self._parts[0].tell_past(worker, past, ttl_s=ttl_s)

    async def past(self, workers: Sequence[str]) -> dict[str, tuple[PastBatch, ...]]:
        """What partition 0 keeps."""
        return await self._parts[0].past(workers)

    async def learn(
        self, seen: Mapping[str, tuple[float, float, float]], *, kept_share: float, most_keys: int, ttl_s: float
    ) -> int:
        """In partition 0: all workers see all lengths, whichever partition the requests were in."""
        return await self._parts[0].learn(seen, kept_share=kept_share, most_keys=most_keys, ttl_s=ttl_s)

    async def lengths(self) -> dict[str, tuple[float, float, float]]:
        """What partition 0 keeps."""
        return await self._parts[0].lengths()

    async def close(self) -> None:
        """Let go of all servers."""
        for redis in {id(part.redis): part.redis for part in self._parts}.values():
            await redis.aclose()


def share_of(limit: int, partitions: int) -> int:
    """How many of `limit` waiting requests one partition may have, one at least."""
    return max(1, -(-limit // partitions))


def result_or_raise(told: T | BaseException) -> T:
    """What `gather` returned for one of many."""
    if isinstance(told, BaseException):
        raise told
    return told
