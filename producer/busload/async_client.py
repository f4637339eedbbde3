"""The client for asyncio: submit requests, wait for results."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Mapping
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from busload_shared.errors import BusloadError, ResultTimeout
from busload_shared.partitions.archive import archive_of
from busload_shared.replicated import Copies
from busload_shared.replies import CancelState, QueueInfo, RequestStatus
from busload_shared.request import Request
from busload_shared.result import Result, ResultError

from .bulk.flight import IN_FLIGHT
from .bulk.outcome import Outcome
from .bulk.running import Running, run_async
from .completion import as_completed
from .encoding import as_request, checked_id, outgoing
from .looking import no_result, parsed
from .sending import Submission, send_many
from .turnstile import AT_MOST
from .wiring import Address, Wiring

if TYPE_CHECKING:
    from pandas import DataFrame

_LAST_LOOK_S = 0.5


class AsyncClient:
    """Submits requests to one queue and waits for their results. Connects on first use; close it, or use `async with`.

    One client serves any number of tasks of its event loop over a few connections. Submits of one turn of the
    loop travel together and in order; all who wait share one subscription. `max_queue_length` is the depth (waiting
    requests) at which this client's requests are refused. `result_ttl_s` is how long the result of a cancelled request
    is kept; workers say it for all others. `patience_s` is how long a call survives Redis being away before it
    raises BusloadUnavailable; every call may then be repeated. An id given twice is one request. With `wait_replicas`
    a submit raises NotReplicated unless so many replicas of Redis have it within `wait_timeout_ms`. `partitions` is
    over how many lists the queue is spread, the same for all who use it; its workers must serve as many.

    The constructor raises SettingsInvalid; every method BusloadUnavailable, and RequestInvalid for an id that
    cannot be one.
    """

    def __init__(  # noqa: PLR0913 - all by name but the first
        self,
        redis_url: str = "redis://127.0.0.1:6379/0",
        *,
        queue: str = "busload:default",
        max_queue_length: int = 100_000,
        result_ttl_s: float = 86_400,
        patience_s: float = 5.0,
        wait_replicas: int = 0,
        wait_timeout_ms: int = 1000,
        partitions: int = 1,
    ) -> None:
        copies = Copies(wait_replicas, wait_timeout_ms)
        self._address = Address(redis_url, queue, max_queue_length, result_ttl_s, patience_s, copies, partitions)
        self._wiring: Wiring | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def is_open(self) -> bool:
        """Whether there is anything to close in this process."""
        return self._wiring is not None and self._wiring.pid == os.getpid()

    async def close(self) -> None:
        """Send what is on its way and disconnect. Whoever still waits gets BusloadError; requests go on."""
        self._closed = True
        wiring, self._wiring = self._wiring, None
        if wiring is not None and wiring.loop is asyncio.get_running_loop():
            await wiring.close()

    async def submit(self, request: Request | Mapping[str, Any] | None = None, /, **fields: Any) -> Submission:
        """Enqueue a Request, or one made of its fields: `submit(prompt="…", max_tokens=64)`.

        A missing id becomes a random one. Raises RequestInvalid, QueueFull, and DeadlineUnmeetable for a deadline that
        the workers cannot meet by their own figures.
        """
        wiring, asked = self._wires(), as_request(request, fields)
        if wiring.tracing is not None and asked.trace is None:
            return await wiring.tracing.around("busload submit", asked, self.submit)
        one = outgoing(asked)
        return Submission(one.id, await wiring.send(one))

    async def submit_many(
        self, requests: Iterable[Request | Mapping[str, Any]], *, raise_when_full: bool = True
    ) -> list[Submission]:
        """Enqueue many, in order, a few hundred on their way at once. The iterable is read as they go.

        When the queue is full QueueFull tells how many were taken and nothing more is sent; without
        `raise_when_full` the refused ones have the state `full` instead. After any error the same requests can
        be submitted again: those that were taken are not taken twice. Raises RequestInvalid with the position.
        """
        return await send_many(self._wires(), requests, raise_when_full=raise_when_full)

    async def result(self, request_id: str, timeout_s: float | None = None) -> Result:
        """Wait for the result of any request of this queue, whoever enqueued it. Never polls.

        Without a timeout an id the queue does not know raises RequestUnknown at once. With one it is waited
        for, since a raw LPUSH is unknown until a worker has looked at it; RequestUnknown comes at the end.
        Raises ResultTimeout, ResultExpired.
        """
        wiring, request_id = self._wires(), checked_id(request_id)
        future = wiring.waiting.expect(request_id, patient=timeout_s is not None)
        wiring.waiting.look_up((request_id,))
        return await self._outcome(wiring, request_id, future, timeout_s)

    async def generate(
        self,
        request: Request | Mapping[str, Any] | None = None,
        /,
        *,
        timeout_s: float | None = None,
        **fields: Any,
    ) -> Result:
        """Submit and wait. Raises what `submit` and `result` raise.

        A caller that stops waiting, by timeout or by cancellation, leaves the request as it is: wait again with
        `result(id)`, or `cancel(id)` it.
        """
        wiring, asked = self._wires(), as_request(request, fields)
        if wiring.tracing is not None and asked.trace is None:
            again = partial(self.generate, timeout_s=timeout_s)
            return await wiring.tracing.around("busload generate", asked, again)
        one = outgoing(asked)
        future = wiring.send_and_expect(one)
        if timeout_s is None:
            return await wiring.waiting.outcome(one.id, future)
        return await self._outcome(wiring, one.id, future, timeout_s)

    async def results(self, request_ids: Iterable[str]) -> list[Result | None]:
        """The results there are now, as many as ids and in their order; None where there is none yet or any more."""
        wiring, ids = self._wires(), [checked_id(request_id) for request_id in request_ids]
        found: list[Result | None] = []
        for start in range(0, len(ids), AT_MOST):
            chunk = ids[start : start + AT_MOST]
            async with wiring.calls:
                stored = await wiring.queue.results(chunk)
            found += map(parsed, chunk, stored)
        return found

    async def as_completed(
        self, request_ids: Iterable[str], timeout_s: float | None = None
    ) -> AsyncGenerator[Result, None]:
        """Yield results as they come, each id once. `timeout_s` bounds the whole.

        The results come first and the bad news last: when some have none, the iteration ends with
        ResultTimeout, ResultExpired or RequestUnknown, which names them. Ids are waited for as in `result`.
        """
        ids = list(dict.fromkeys(checked_id(request_id) for request_id in request_ids))
        async with aclosing(as_completed(self._wires().waiting, ids, timeout_s)) as results:
            async for result in results:
                yield result

    async def run(
        self,
        requests: Iterable[Request | Mapping[str, Any]] | AsyncIterable[Request | Mapping[str, Any]],
        *,
        in_flight: int = IN_FLIGHT,
    ) -> AsyncGenerator[Outcome, None]:
        """Submit all and yield their outcomes as they come, in any order, with at most `in_flight` under way.

        The iterable may be endless and is read as there is room; a full queue is waited for as long as it says. A
        request that is wrong or cannot be answered is an outcome with its error, and stops nothing. Raises
        BusloadUnavailable. What was under way goes on when the iteration ends early: with ids of your own, run the
        same requests again, and those that have a result are not run twice.
        """
        async with aclosing(run_async(self._wires(), requests, in_flight=in_flight)) as outcomes:
            async for outcome in outcomes:
                yield outcome

    async def _start_running(self, in_flight: int) -> Running:
        return Running(self._wires(), in_flight=in_flight)

    async def results_frame(self, request_ids: Iterable[str]) -> DataFrame:
        """A pandas DataFrame with a row for each id, in their order: the columns of `busload results`, typed.

        Needs the extra `analysis`. The column `state` tells where a request is; see docs/analysts.md.
        """
        from .analysis.frame import frame_of

        archive = archive_of(self._wires().queue, patience_s=self._address.patience_s)
        return await frame_of(archive, [checked_id(request_id) for request_id in request_ids])

    async def status(self, request_id: str) -> RequestStatus:
        """Where the request is: `unknown`, `waiting`, `running`, `answered` (with its result) or `expired`."""
        return await self._wires().states.ask(checked_id(request_id))

    async def statuses(self, request_ids: Iterable[str]) -> list[RequestStatus]:
        """Where each request is, in the order of the ids; those of one call (128) from one moment."""
        ids, states = [checked_id(request_id) for request_id in request_ids], self._wires().states
        return list(await asyncio.gather(*map(states.ask, ids)))

    async def cancel(self, request_id: str) -> CancelState:
        """Cancel a request wherever it is, with or without a worker being up.

        `cancelled`: it waited, and its result is `cancelled` now. `running`: its worker will abort it, if it
        does not end first. `answered`: too late. `unknown`: it will be cancelled should it come.
        """
        wiring, request_id = self._wires(), checked_id(request_id)
        error = ResultError(code="cancelled", message="cancelled before it ran")
        result = Result(id=request_id, status="cancelled", error=error, attempts=0)
        async with wiring.calls:
            return await wiring.queue.cancel(
                request_id, result=result.model_dump_json().encode(), ttl_s=self._address.result_ttl_s
            )

    async def queue_info(self) -> QueueInfo:
        """Depths, ages, workers and counters of the queue, from one moment."""
        wiring = self._wires()
        async with wiring.calls:
            return await wiring.queue.info()

    async def _outcome(
        self, wiring: Wiring, request_id: str, future: asyncio.Future[Result], timeout_s: float | None
    ) -> Result:
        try:
            return await wiring.waiting.outcome(request_id, future, timeout_s)
        except ResultTimeout as error:
            late = error
        on_its_way = wiring.waiting.is_sending(request_id)
        try:
            async with asyncio.timeout(_LAST_LOOK_S):
                state, result, _ = await wiring.states.ask(request_id)
        except (TimeoutError, BusloadError):
            raise late from None
        if result is not None:
            return result
        if on_its_way:
            raise ResultTimeout(f"{late}; it did not reach the queue yet")
        raise no_result(request_id, state) or ResultTimeout(f"{late}; it is {state}")

    def _wires(self) -> Wiring:
        wiring = self._wiring
        if wiring is not None and wiring.loop is asyncio.get_running_loop():
            return wiring
        if self._closed:
            raise BusloadError("this client is closed; make a new one")
        if wiring is not None and wiring.pid == os.getpid() and not wiring.loop.is_closed():
            raise BusloadError("this AsyncClient belongs to another event loop; use one for each, or Client")
        self._wiring = wiring = Wiring(self._address)
        return wiring
