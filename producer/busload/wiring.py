"""What an open client is made of. All of it belongs to one event loop in one process."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import uuid4

from busload_shared.connection import open_redis
from busload_shared.errors import BusloadError, DeadlineUnmeetable, NotReplicated, QueueFull
from busload_shared.inbox import Inbox
from busload_shared.keys import Keys
from busload_shared.opening import open_queue
from busload_shared.partitions.homes import partition_names, partition_of
from busload_shared.partitions.inbox import inbox_of
from busload_shared.partitions.spread import share_of
from busload_shared.queue import Queue
from busload_shared.replicated import Copies
from busload_shared.replies import RequestStatus, SubmitState
from busload_shared.result import Result

from .encoding import Outgoing
from .forecast import Forecast
from .looking import statuses
from .served import Served
from .tracing import ProducerTracing, producer_tracing
from .turnstile import Turnstile
from .turnstiles import Turnstiles
from .waiting import Waiting
from .waitings import Waitings

CALLS_AT_ONCE = 8
"""Connections a client has at most besides those that send requests, ask for states and listen."""


@dataclass(frozen=True, slots=True)
class Address:
    """Which queue, on which Redis, and how to use it. Raises SettingsInvalid."""

    redis_url: str = field(repr=False)
    queue: str
    max_queue_length: int
    result_ttl_s: float
    patience_s: float
    copies: Copies
    partitions: int = 1

    def __post_init__(self) -> None:
        for name in partition_names(self.queue, self.partitions):
            Keys(name)
        open_redis(self.redis_url, queue=self.queue)  # checks the URL and connects to nothing

    def open(self) -> Queue:
        """The queue. Connects on first use."""
        return open_queue(
            self.redis_url, self.queue, partitions=self.partitions, copies=self.copies, patience_s=self.patience_s
        )


class Wiring:
    """The queue, the line of requests to it, the line of questions to it, and those who wait."""

    def __init__(self, address: Address) -> None:
        self.loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self.pid: int = os.getpid()
        _open.add(self)
        self.queue: Queue = address.open()
        self.states: Turnstile[str, RequestStatus] = self._states()
        self.calls: asyncio.Semaphore = asyncio.Semaphore(CALLS_AT_ONCE)
        self.tracing: ProducerTracing | None = producer_tracing(address.queue)
        self._token = uuid4().hex
        self.waiting: Waiting = self._waiting()
        self._limit = share_of(address.max_queue_length, address.partitions)
        self._forecast = Forecast(self.queue)
        self._served = Served(self.queue)
        self._outbox: Turnstile[Outgoing, SubmitState] = self._lines_out()

    def send(self, one: Outgoing) -> asyncio.Future[SubmitState]:
        """Put a request on its way. The future raises QueueFull, DeadlineUnmeetable or BusloadUnavailable."""
        future: asyncio.Future[SubmitState] = self.loop.create_future()
        self.waiting.sending(one.id)
        self._outbox.put(one, partial(self._sent, one.id, future))
        return future

    def send_and_expect(self, one: Outgoing) -> asyncio.Future[Result]:
        """Put a request on its way. The future is for `Waiting.outcome`, and raises what `send` raises too."""
        future = self.waiting.expect(one.id)
        self.waiting.sending(one.id)
        self._outbox.put(one, partial(self._sent_for, one.id, future))
        return future

    async def close(self) -> None:
        """Let pass what is on its way, then let go of everything. Whoever still waits gets BusloadError."""
        error = BusloadError("the client was closed")
        await self._outbox.close(error)
        await self.states.close(error)
        await self.waiting.close(error)
        await self.queue.close()

    def _lines_out(self) -> Turnstile[Outgoing, SubmitState]:
        lines: list[Turnstile[Outgoing, SubmitState]] = [
            Turnstile(partial(self._submit, part), weigh=_weight) for part in self.queue.parts
        ]
        count = len(lines)
        return lines[0] if count == 1 else Turnstiles(lines, lambda one: partition_of(one.id, count))

    def _waiting(self) -> Waiting:
        parts = self.queue.parts
        if len({id(part.redis) for part in parts}) == 1:
            return Waiting(self.queue, inbox_of(self.queue, self._token))
        apart = [Waiting(part, Inbox(part.redis, part.keys, self._token)) for part in parts]
        return Waitings(apart, lambda name: partition_of(name, len(parts)))

    def _states(self) -> Turnstile[str, RequestStatus]:
        lines = [Turnstile(partial(statuses, part)) for part in self.queue.parts]
        count = len(lines)
        return lines[0] if count == 1 else Turnstiles(lines, lambda name: partition_of(name, count))

    async def _submit(self, part: Queue, requests: list[Outgoing]) -> Sequence[SubmitState | BusloadError]:
        if len(self.queue.parts) > 1:
            await self._served.check(part)
        hopeless = await self._hopeless(part, requests) if any(one.terms is not None for one in requests) else None
        if not hopeless:
            return await self._enqueue(part, requests)
        taken = [one for at, one in enumerate(requests) if at not in hopeless]
        told = iter(await self._enqueue(part, taken) if taken else ())
        return [hopeless[at] if at in hopeless else next(told) for at in range(len(requests))]

    async def _hopeless(self, part: Queue, requests: list[Outgoing]) -> Mapping[int, DeadlineUnmeetable]:
        """Only a newcomer is refused: an id that waits, runs or is answered is told its state, as ever."""
        hopeless = await self._forecast.unmeetable(requests)
        if not hopeless:
            return hopeless
        known = await part.status([requests[at].id for at in hopeless])
        return {
            at: error
            for (at, error), status in zip(hopeless.items(), known, strict=True)
            if status.state in ("unknown", "expired")
        }

    async def _enqueue(self, part: Queue, requests: list[Outgoing]) -> Sequence[SubmitState | BusloadError]:
        terms = {at: one.terms for at, one in enumerate(requests) if one.terms is not None}
        pairs = [(one.id, one.payload) for one in requests]
        try:
            sent = await part.submit(pairs, limit=self._limit, reply=self._token, terms=terms)
        except NotReplicated as error:  # of these, not of all that stand in line behind them
            return [NotReplicated(f"{one.id}: {error}") for one in requests]
        if "full" not in sent.states:
            return sent.states
        wait_s = (await self.queue.info()).expected_wait_s
        name, limit = part.keys.queue, self._limit
        return [
            state if state != "full" else QueueFull(name, depth=sent.depth, limit=limit, expected_wait_s=wait_s)
            for state in sent.states
        ]

    def _sent(self, request_id: str, future: asyncio.Future[SubmitState], state: SubmitState | BusloadError) -> None:
        self._sent_for(request_id, future, state)
        if not isinstance(state, BusloadError) and not future.done():
            future.set_result(state)

    def _sent_for(self, request_id: str, future: asyncio.Future[Any], state: SubmitState | BusloadError) -> None:
        if isinstance(state, BusloadError):
            self.waiting.sent(request_id, None)
            if not future.done():
                future.set_exception(state)
        else:
            self.waiting.sent(request_id, state)


def _weight(one: Outgoing) -> int:
    return len(one.payload)


_open: weakref.WeakSet[Wiring] = weakref.WeakSet()
_of_parents: list[Wiring] = []


def _keep_parents() -> None:
    """In a forked child keep the parent's wiring for ever: its destructors would meddle with shared sockets."""
    _of_parents.extend(_open)
    _open.clear()


os.register_at_fork(after_in_child=_keep_parents)
