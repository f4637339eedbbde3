"""What a process of a Celery application has open to Busload's Redis. Made on first use, anew in a forked child."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import Any, TypeVar

from busload_shared.errors import QueueFull
from busload_shared.opening import open_queue
from busload_shared.parking import LISTENERS, Parking
from busload_shared.partitions.homes import partition_of
from busload_shared.queue import Queue
from busload_shared.replies import SubmitState
from busload_shared.reports import Reports

from ..background import Background, background
from ..encoding import Outgoing
from ..forecast import Forecast
from ..served import Served
from .settings import DoorSettings, settings_of

T = TypeVar("T")


class Line:
    """The queue, its parked tickets and its reports, over connections of one event loop."""

    def __init__(self, settings: DoorSettings) -> None:
        self.settings = settings
        self.pid: int = os.getpid()
        self.queue: Queue = open_queue(
            settings.redis_url, settings.queue, partitions=settings.partitions, patience_s=settings.patience_s
        )
        redis, keys = self.queue.redis, self.queue.keys
        self.parking: Parking = Parking(redis, keys, patience_s=settings.patience_s)
        self.reports: Reports = Reports(redis, keys, patience_s=settings.patience_s)
        self._forecast = Forecast(self.queue)
        self._served = Served(self.queue)

    async def submit(self, one: Outgoing) -> SubmitState:
        """Enqueue a request whose result wakers hear of. Raises QueueFull, DeadlineUnmeetable, BusloadUnavailable,
        SettingsInvalid."""
        await self._served.check(self.queue.parts[partition_of(one.id, self.settings.partitions)])
        if hopeless := await self._forecast.unmeetable([one]):
            known = await self.queue.status([one.id])
            if known[0].state in ("unknown", "expired"):
                raise hopeless[0]
        terms = {} if one.terms is None else {0: one.terms}
        limit = self.settings.max_queue_length
        sent = await self.queue.submit([(one.id, one.payload)], limit=limit, reply=LISTENERS, terms=terms)
        if sent.states[0] == "full":
            wait_s = (await self.queue.info()).expected_wait_s
            raise QueueFull(self.settings.queue, depth=sent.depth, limit=limit, expected_wait_s=wait_s)
        return sent.states[0]

    async def close(self) -> None:
        """Disconnect."""
        await self.queue.close()


class Door:
    """One application's way to one queue, for synchronous code."""

    def __init__(self, app: Any, given: dict[str, Any]) -> None:
        self._app = app
        self._given = given
        self._line: Line | None = None
        self._loop: Background | None = None
        self._of_parents: list[Line | None] = []

    @cached_property
    def settings(self) -> DoorSettings:
        """Read on first use: the application may be configured after the task was added."""
        return settings_of(self._app, self._given)

    def do(self, work: Callable[[Line], Awaitable[T]]) -> T:
        """Do `work` with this process's line, and wait for it."""
        loop = background()
        if self._line is None or self._loop is not loop or self._line.pid != os.getpid():
            self._of_parents.append(self._line)  # kept: its end would meddle with sockets the parent uses
            self._line, self._loop = Line(self.settings), loop
        line = self._line

        async def working() -> T:
            return await work(line)

        return loop.run(working())

    def close(self) -> None:
        """Disconnect; the next use connects again."""
        line, self._line = self._line, None
        if line is not None and line.pid == os.getpid() and self._loop is background():
            self._loop.run(line.close())
