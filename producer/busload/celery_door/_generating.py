"""The task: its first run submits the request and parks; its second, once woken, hands over the result."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn
from uuid import uuid4

from celery import Task, states
from celery.exceptions import Ignore, SoftTimeLimitExceeded, TimeLimitExceeded

from busload_shared.errors import BusloadUnavailable, DeadlineUnmeetable, QueueFull, RequestInvalid
from busload_shared.parking import Ticket
from busload_shared.replies import RequestStatus
from busload_shared.result import Result

from ..client import Client
from ..encoding import Outgoing, as_request, outgoing
from ..looking import no_result
from .door import Door, Line
from .failures import portable, raise_failure
from .messages import LANDED_HEADER, keep_task
from .tickets import task_request

WAITING = "WAITING"
"""The task's state while its request waits or runs; the state's info names the request."""

_SAME_REQUEST_HEADER = "busload_same_request"
_LONGEST_PAUSE_S = 60.0


class Trip(NamedTuple):
    """A task's ticket, and the request it is for."""

    ticket: Ticket
    request: Outgoing


class Generating(Task):  # type: ignore[misc]  # celery has no types
    """Base of the task that `add_to` makes. `door` is set there.

    acks_late: a worker that dies in one of the two short runs leaves the message to be delivered again, and the
    ticket tells the copy what has been done.
    """

    abstract = True
    door: Door
    acks_late = True
    reject_on_worker_lost = True
    max_retries = 10

    def ride(self, prompt: Any, fields: dict[str, Any]) -> Any:
        """One run. Raises Ignore when it has parked."""
        if self.request.called_directly or self.request.is_eager:
            return self._answer(self._wait_here(_fields(prompt, fields)))
        ticket = self._ticket()
        given = _fields(prompt, fields) | {"id": ticket.request_id}
        trip = Trip(ticket, outgoing(as_request(given | self._limit(given), {})))
        if getattr(self.request, LANDED_HEADER, None) == ticket.request_id:
            return self._land(trip)
        return self._park(trip)

    def after_return(self, *_: Any) -> None:
        """The outcome is stored and the callbacks are sent: the ticket has done its service."""
        self._settle()

    def on_retry(self, *_: Any) -> None:
        """The retry has been published, and will have a request of its own."""
        self._settle()

    def _ticket(self) -> Ticket:
        tries, _, same = str(getattr(self.request, _SAME_REQUEST_HEADER, None) or "").partition(" ")
        ticket = task_request(self.request.id, self.request.retries)
        return Ticket(ticket.name, same) if tries == str(self.request.retries) else ticket

    def _park(self, trip: Trip) -> Any:
        if self._is_redelivered() and self._is_done():
            raise Ignore
        if not self._keep(trip):
            raise Ignore  # a copy of the message: the task is being woken
        if not self.ignore_result and not self.request.ignore_result:
            # before the request is sent, or it could overwrite the task's outcome
            self.update_state(state=WAITING, meta={"request_id": trip.request.id, "queue": self.door.settings.queue})
        return self._send(trip)

    def _keep(self, trip: Trip, *, again: bool = False) -> bool:
        message, settings = keep_task(self, trip.request.id), self.door.settings
        look_ms, ttl_s = settings.look_s * 1000, settings.park_ttl_s
        try:
            return self.door.do(
                lambda line: line.parking.park(trip.ticket, message, look_ms=look_ms, ttl_s=ttl_s, again=again)
            )
        except BusloadUnavailable as error:
            self._retry_soon(trip, error, pause_s=1.0)

    def _send(self, trip: Trip) -> Any:
        try:
            state = self.door.do(lambda line: line.submit(trip.request))
        except DeadlineUnmeetable as error:
            raise portable(error) from None
        except QueueFull as error:
            self._retry_soon(trip, error, pause_s=error.expected_wait_s or 1.0)
        except BusloadUnavailable as error:
            self._retry_soon(trip, error, pause_s=1.0)
        if state != "answered":
            raise Ignore
        if not any(self.door.do(lambda line: line.parking.claim([trip.ticket], lease_ms=self._run_lease_ms))):
            raise Ignore
        return self._land(trip)

    def _retry_soon(self, trip: Trip, error: QueueFull | BusloadUnavailable, *, pause_s: float) -> NoReturn:
        """Retry as Celery does, with the same request: whether it came through is not known."""
        retries = self.request.retries + 1
        headers = (self.request.headers or {}) | {_SAME_REQUEST_HEADER: f"{retries} {trip.request.id}"}
        headers.pop(LANDED_HEADER, None)
        countdown = min(_LONGEST_PAUSE_S, pause_s * 2**self.request.retries) * random.uniform(0.75, 1.25)
        raise self.retry(exc=portable(error), countdown=countdown, headers=headers)

    def _land(self, trip: Trip) -> Any:
        runner, lease_ms = uuid4().hex, self._run_lease_ms
        begun = self.door.do(lambda line: line.parking.begin(trip.ticket, runner, lease_ms=lease_ms))
        if not begun:
            raise Ignore  # a copy of the message: another run has it, or had it
        if (begun > 1 or self._is_redelivered()) and self._is_done():
            self._settle()
            raise Ignore
        status = self.door.do(lambda line: _status(line, trip.request.id))
        if status.result is not None:
            return self._answer(status.result)
        if status.state == "expired" and (error := no_result(trip.request.id, status.state)):
            raise error
        self._keep(trip, again=True)  # its request was never sent, or Redis lost it; or it was woken too early
        return self._send(trip)

    def _answer(self, result: Result) -> Any:
        if result.status == "expired" and (limit := self._limit(self.request.kwargs or {})):
            hard, soft = self._limits()
            raise SoftTimeLimitExceeded(soft) if soft == limit["ttl_s"] else TimeLimitExceeded(hard)
        if result.status != "succeeded":
            raise_failure(result)
        return result.text if self.door.settings.returns == "text" else result.model_dump(mode="json")

    def _wait_here(self, fields: dict[str, Any]) -> Result:
        """Called as a function, or eager: there is no worker to be woken."""
        settings = self.door.settings
        with Client(
            settings.redis_url,
            queue=settings.queue,
            partitions=settings.partitions,
            patience_s=settings.patience_s,
        ) as client:
            return client.generate(fields | self._limit(fields))

    def _limits(self) -> tuple[float | None, float | None]:
        """Hard and soft time limit of this call, s."""
        hard, soft = self.request.timelimit or (None, None)
        return hard or self.time_limit, soft or self.soft_time_limit

    def _limit(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The task's time limit as the request's, which has none of its own: no slot is held that it could free."""
        limits = [limit for limit in self._limits() if limit]
        if not limits or fields.get("ttl_s") is not None or fields.get("deadline") is not None:
            return {}
        return {"ttl_s": float(min(limits))}

    @property
    def _run_lease_ms(self) -> float:
        return self.door.settings.run_lease_s * 1000

    def _is_redelivered(self) -> bool:
        return bool((self.request.delivery_info or {}).get("redelivered"))

    def _is_done(self) -> bool:
        return self.AsyncResult(self.request.id).state in states.READY_STATES

    def _settle(self) -> None:
        if self.request.called_directly or self.request.is_eager:
            return
        ticket = self._ticket()
        self.door.do(lambda line: line.parking.settle(*ticket))


def _fields(prompt: Any, fields: dict[str, Any]) -> dict[str, Any]:
    """The request's fields. The first argument is the prompt, or messages when it is a list."""
    if "id" in fields:
        raise RequestInvalid("id: leave it out, the request's id follows from the task's; give metadata instead")
    if prompt is None:
        return fields
    return fields | {"messages" if isinstance(prompt, list) else "prompt": prompt}


async def _status(line: Line, request_id: str) -> RequestStatus:
    return (await line.queue.status([request_id]))[0]
