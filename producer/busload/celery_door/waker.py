"""The waker: hears of results, and publishes the messages of the tasks that are parked for them.

One runs in each Celery worker. Several hear the same news: who claims a ticket publishes it. What nobody heard is found
by the sweep.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from contextlib import aclosing
from itertools import islice
from typing import Any

from kombu.exceptions import OperationalError

from busload_shared.connection import unavailable
from busload_shared.errors import BusloadError, BusloadUnavailable
from busload_shared.inbox import LookAgain, Lost, Mail
from busload_shared.parking import LISTENERS, Ticket
from busload_shared.partitions.inbox import inbox_of
from busload_shared.result import Result, ResultError

from ..looking import statuses
from .door import Line
from .messages import publish
from .settings import DoorSettings
from .tickets import task_ticket, ticket_of

_logger = logging.getLogger(__name__)

_AT_ONCE = 64
"""Tickets in one call: each may carry a message of a megabyte."""

_SWEPT_AT_MOST = 1024
"""Tickets that one regular sweep looks at, so that it costs the same whatever is parked."""


class Waker:
    """Runs in an event loop of its own; `hear_revoked` may be called from other threads through that loop."""

    def __init__(self, app: Any, settings: DoorSettings) -> None:
        self._app = app
        self._settings = settings
        self._line = Line(settings)
        self._inbox = inbox_of(self._line.queue, LISTENERS)
        self._answered: dict[str, None] = {}
        self._unsure: dict[str, None] = {}
        self._revoked: dict[str, None] = {}
        self._wake = asyncio.Event()
        self._missed_at: float | None = time.monotonic()
        """When news may have been missed; everything that was parked by then is to be looked at."""

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop`. What is claimed by then is published first."""
        tasks = [asyncio.create_task(work) for work in (self._listen(), self._serve())]
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait([*tasks, stopping], return_when=asyncio.FIRST_COMPLETED)
        broken = [task.exception() for task in tasks if task.done()]
        for task in (*tasks, stopping):
            task.cancel()
        await asyncio.wait([*tasks, stopping], timeout=2)
        await self._line.close()
        for error in broken:
            if error is not None:
                raise error

    def hear_revoked(self, task_ids: Iterable[str]) -> None:
        """These tasks were revoked: their requests need not run."""
        self._revoked.update(dict.fromkeys(task_ids))
        self._wake.set()

    async def _listen(self) -> None:
        async with aclosing(self._inbox.events()) as events:
            async for event in events:
                if isinstance(event, Mail):
                    self._answered.update(dict.fromkeys(result.id for result in event.results))
                    self._unsure.update(dict.fromkeys(event.too_large))
                elif isinstance(event, LookAgain):
                    if event.ids is None:
                        self._missed_at = time.monotonic()
                    self._unsure.update(dict.fromkeys(event.ids or ()))
                elif isinstance(event, Lost):
                    _logger.warning("waking tasks: %s", unavailable(event.error))
                self._wake.set()

    async def _serve(self) -> None:
        swept_at = 0.0
        while True:
            try:
                async with asyncio.timeout(max(0.0, swept_at + self._settings.sweep_s - time.monotonic())):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            try:
                await self._serve_news()
                if self._missed_at is not None or time.monotonic() >= swept_at + self._settings.sweep_s:
                    swept_at = time.monotonic()
                    await self._sweep()
            except (BusloadError, OperationalError) as error:
                _logger.warning("waking tasks: %s; tried again within %g s", error, self._settings.sweep_s)
                self._missed_at = self._missed_at or time.monotonic()
                await asyncio.sleep(min(1.0, self._settings.sweep_s))
                self._wake.set()

    async def _serve_news(self) -> None:
        while self._revoked or self._answered or self._unsure:
            await self._cancel(_taken(self._revoked))
            await self._land([ticket_of(request_id) for request_id in _taken(self._answered)])
            await self._look([ticket_of(request_id) for request_id in _taken(self._unsure)])

    async def _sweep(self) -> None:
        """Look at those that are due; at all that were parked when news may have been missed."""
        look_ms, missed_at, left = self._settings.look_s * 1000, self._missed_at, _SWEPT_AT_MOST
        while left > 0:
            ahead_ms = 0.0
            if missed_at is not None:
                ahead_ms = max(0.0, look_ms - (time.monotonic() - missed_at) * 1000)
            due = await self._line.parking.due(at_most=_AT_ONCE, look_ms=look_ms, ahead_ms=ahead_ms)
            if not due:
                break
            await self._look(due)
            left -= 0 if missed_at is not None else len(due)
        if missed_at is not None and self._missed_at == missed_at:
            self._missed_at = None

    async def _look(self, tickets: list[Ticket]) -> None:
        if not tickets:
            return
        found = await statuses(self._line.queue, [ticket.request_id for ticket in tickets])
        over, later = [], []
        for ticket, status in zip(tickets, found, strict=True):
            state = "answered" if isinstance(status, BusloadError) else status.state
            lost = state == "unknown" and _is_tasks(ticket)  # its first run died before the request was sent
            if lost or state in ("answered", "expired"):
                over.append(ticket)
            elif not _is_tasks(ticket):
                later.append(ticket.request_id)
        await self._land(over)
        await self._inbox.watch(later)

    async def _land(self, tickets: list[Ticket]) -> None:
        if not tickets:
            return
        lease_ms = self._settings.claim_lease_s * 1000
        messages = await self._line.parking.claim(tickets, lease_ms=lease_ms)
        ours = [(ticket, message) for ticket, message in zip(tickets, messages, strict=True) if message]
        tasks = [pair for pair in ours if _is_tasks(pair[0])]
        if tasks:
            await asyncio.to_thread(self._publish, [(message, None) for _, message in tasks])
            lease_ms = self._settings.landing_lease_s * 1000
            await self._line.parking.published([ticket for ticket, _ in tasks], lease_ms=lease_ms)
        await self._call_back([pair for pair in ours if not _is_tasks(pair[0])])

    async def _call_back(self, claimed: list[tuple[Ticket, bytes]]) -> None:
        if not claimed:
            return
        found = await statuses(self._line.queue, [ticket.request_id for ticket, _ in claimed])
        for (ticket, message), status in zip(claimed, found, strict=True):
            result = None if isinstance(status, BusloadError) else status.result
            if result is None:
                _logger.error("%s: its callback is not called: the result is gone or cannot be read", ticket.request_id)
            else:
                await asyncio.to_thread(self._publish, [(message, result)])
            await self._line.parking.settle(*ticket)
            await self._inbox.unwatch([ticket.request_id])

    def _publish(self, messages: list[tuple[bytes, Result | None]]) -> None:
        for message, result in messages:
            try:
                publish(self._app, message, result)
            except OperationalError:
                raise  # the broker is away: all are published once the claim's lease has ended
            except Exception:
                _logger.exception(
                    "a parked message cannot be published: see that all workers have the same serializers"
                )

    async def _cancel(self, task_ids: list[str]) -> None:
        for task_id in task_ids:
            request_id = await self._line.parking.request_of(task_ticket(task_id))
            if request_id is not None:
                _logger.info("task %s is revoked: its request %s is cancelled", task_id, request_id)
                error = ResultError(code="cancelled", message="its task was revoked")
                result = Result(id=request_id, status="cancelled", error=error, attempts=0)
                body = result.model_dump_json().encode()
                await self._line.queue.cancel(request_id, result=body, ttl_s=self._settings.result_ttl_s)

    async def forget(self, task_id: str) -> None:
        """A worker has thrown the task's message away, as revoked or as too old: nothing is left to be woken."""
        try:
            await self._cancel([task_id])
            await self._line.parking.settle(task_ticket(task_id))
        except BusloadUnavailable as error:
            _logger.warning("task %s: %s", task_id, error)


def _is_tasks(ticket: Ticket) -> bool:
    return ticket.name != ticket.request_id


def _taken(names: dict[str, None]) -> list[str]:
    taken = list(islice(names, _AT_ONCE))
    for name in taken:
        del names[name]
    return taken
