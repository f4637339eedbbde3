"""What an open client is made of. All of it belongs to one event loop in one process."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

from busload_shared.connection import open_redis
from busload_shared.errors import BusloadError, QueueFull
from busload_shared.inbox import Inbox
from busload_shared.keys import Keys
from busload_shared.queue import Queue
from busload_shared.replies import RequestStatus, SubmitState
from busload_shared.result import Result

from .looking import statuses
from .turnstile import Turnstile
from .waiting import Waiting

CALLS_AT_ONCE = 8
"""Connections a client has at most besides those that send requests, ask for states and listen."""


@dataclass(frozen=True, slots=True)
class Address:
    """Which queue, on which Redis, and how to use it. Raises SettingsInvalid."""

    redis_url: str
    queue: str
    max_queue_length: int
    result_ttl_s: float
    patience_s: float

    def __post_init__(self) -> None:
        Keys(self.queue)
        open_redis(self.redis_url)  # checks the URL and connects to nothing


class Wiring:
    """The queue, the line of requests to it, the line of questions to it, and those who wait."""

    def __init__(self, address: Address) -> None:
        self.loop = asyncio.get_running_loop()
        self.pid = os.getpid()
        _open.add(self)
        self.queue = Queue(open_redis(address.redis_url), address.queue, patience_s=address.patience_s)
        self.states: Turnstile[str, RequestStatus] = Turnstile(partial(statuses, self.queue))
        self.calls = asyncio.Semaphore(CALLS_AT_ONCE)
        self._token = uuid4().hex
        self.waiting = Waiting(self.queue, Inbox(self.queue.redis, self.queue.keys, self._token))
        self._limit = address.max_queue_length
        self._outbox: Turnstile[tuple[str, bytes], SubmitState] = Turnstile(self._submit, weigh=_weight)

    def send(self, request_id: str, payload: bytes) -> asyncio.Future[SubmitState]:
        """Put a request on its way. The future raises QueueFull or BusloadUnavailable."""
        future: asyncio.Future[SubmitState] = self.loop.create_future()
        self.waiting.sending(request_id)
        self._outbox.put((request_id, payload), partial(self._sent, request_id, future))
        return future

    def send_and_expect(self, request_id: str, payload: bytes) -> asyncio.Future[Result]:
        """Put a request on its way. The future is for `Waiting.outcome`, and raises what `send` raises too."""
        future = self.waiting.expect(request_id)
        self.waiting.sending(request_id)
        self._outbox.put((request_id, payload), partial(self._sent_for, request_id, future))
        return future

    async def close(self) -> None:
        """Let pass what is on its way, then let go of everything. Whoever still waits gets BusloadError."""
        error = BusloadError("the client was closed")
        await self._outbox.close(error)
        await self.states.close(error)
        await self.waiting.close(error)
        await self.queue.redis.aclose()

    async def _submit(self, requests: list[tuple[str, bytes]]) -> Sequence[SubmitState | BusloadError]:
        sent = await self.queue.submit(requests, limit=self._limit, reply=self._token)
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


def _weight(request: tuple[str, bytes]) -> int:
    return len(request[1])


_open: weakref.WeakSet[Wiring] = weakref.WeakSet()
_of_parents: list[Wiring] = []


def _keep_parents() -> None:
    """In a forked child keep the parent's wiring for ever: its destructors would meddle with shared sockets."""
    _of_parents.extend(_open)
    _open.clear()


os.register_at_fork(after_in_child=_keep_parents)
