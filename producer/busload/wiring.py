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
from busload_shared.queue import Queue
from busload_shared.replicated import Copies, queue_with
from busload_shared.replies import RequestStatus, SubmitState
from busload_shared.result import Result

from .encoding import Outgoing
from .forecast import Forecast
from .looking import statuses
from .tracing import ProducerTracing, producer_tracing
from .turnstile import Turnstile
from .waiting import Waiting

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

    def __post_init__(self) -> None:
        Keys(self.queue)
        open_redis(self.redis_url, queue=self.queue)  # checks the URL and connects to nothing


class Wiring:
    """The queue, the line of requests to it, the line of questions to it, and those who wait."""

    def __init__(self, address: Address) -> None:
        self.loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self.pid: int = os.getpid()
        _open.add(self)
        redis = open_redis(address.redis_url, queue=address.queue)
        self.queue: Queue = queue_with(address.copies, redis, address.queue, patience_s=address.patience_s)
        self.states: Turnstile[str, RequestStatus] = Turnstile(partial(statuses, self.queue))
        self.calls: asyncio.Semaphore = asyncio.Semaphore(CALLS_AT_ONCE)
        self.tracing: ProducerTracing | None = producer_tracing(address.queue)
        self._token = uuid4().hex
        self.waiting: Waiting = Waiting(self.queue, Inbox(self.queue.redis, self.queue.keys, self._token))
        self._limit = address.max_queue_length
        self._forecast = Forecast(self.queue)
        self._outbox: Turnstile[Outgoing, SubmitState] = Turnstile(self._submit, weigh=_weight)

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
        await self.queue.redis.aclose()

    async def _submit(self, requests: list[Outgoing]) -> Sequence[SubmitState | BusloadError]:
        hopeless = await self._new_among(requests, await self._forecast.unmeetable(requests))
        if not hopeless:
            return await self._enqueue(requests)
        taken = [one for at, one in enumerate(requests) if at not in hopeless]
        told = iter(await self._enqueue(taken) if taken else ())
        return [hopeless[at] if at in hopeless else next(told) for at in range(len(requests))]

    async def _new_among(
        self, requests: list[Outgoing], hopeless: Mapping[int, DeadlineUnmeetable]
    ) -> Mapping[int, DeadlineUnmeetable]:
        """Only a newcomer is refused: an id that waits, runs or is answered is told its state, as ever."""
        if not hopeless:
            return hopeless
        known = await self.queue.status([requests[at].id for at in hopeless])
        return {
            at: error
            for (at, error), status in zip(hopeless.items(), known, strict=True)
            if status.state in ("unknown", "expired")
        }

    async def _enqueue(self, requests: list[Outgoing]) -> Sequence[SubmitState | BusloadError]:
        terms = {at: one.terms for at, one in enumerate(requests) if one.terms is not None}
        pairs = [(one.id, one.payload) for one in requests]
        try:
            sent = await self.queue.submit(pairs, limit=self._limit, reply=self._token, terms=terms)
        except NotReplicated as error:  # of these, not of all that stand in line behind them
            return [NotReplicated(f"{one.id}: {error}") for one in requests]
        if "full" not in sent.states:
            return sent.states
        wait_s = (await self.queue.info()).expected_wait_s
        name, limit = self.queue.keys.queue, self._limit
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
