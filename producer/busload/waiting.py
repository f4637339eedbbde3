"""Who waits for which result. One subscription for any number of waiters, and no polling."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Set
from contextlib import aclosing
from itertools import islice

from busload_shared.connection import is_transient, unavailable
from busload_shared.errors import BusloadError, BusloadUnavailable, ResultTimeout
from busload_shared.inbox import Inbox, LookAgain, Lost, Mail
from busload_shared.queue import Queue
from busload_shared.replies import RequestStatus, SubmitState
from busload_shared.result import Result

from .looking import no_result, statuses

TICK_S = 5.0
"""How often waiting ids are looked up although nothing was heard of them: the net under lost messages."""

_LOOKED_UP_PER_TICK = 2048
_LOOKED_UP_PER_CALL = 64
_OWN_REMEMBERED = 32_768


class Waiting:
    """Futures by id, and what makes them come true. Belongs to one event loop.

    An id this client enqueued is *own*: its result comes by the reply channel. Any other is looked up, then
    watched on its done channel and looked up again. While Redis is away waiters stay; once a look-up has run out
    of the queue's patience, all of them get BusloadUnavailable, so that nobody hangs.
    """

    def __init__(self, queue: Queue, inbox: Inbox) -> None:
        self._queue = queue
        self._inbox = inbox
        self._loop = asyncio.get_running_loop()
        self._futures: dict[str, set[asyncio.Future[Result]]] = {}
        self._patient: set[asyncio.Future[Result]] = set()
        self._sending: dict[str, int] = {}  # on its way to the queue -> how often
        self._asked_for: set[str] = set()  # of those, to be looked up once they are there
        self._own: dict[str, None] = {}
        self._unseen: dict[str, None] = {}  # to be looked up
        self._left: set[str] = set()  # watched, and nobody waits any more
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._tick_timer: asyncio.TimerHandle | None = None

    def expect(self, request_id: str, *, patient: bool = False) -> asyncio.Future[Result]:
        """A future for the result; pass it to `outcome`. `patient` ones also wait for an id nobody knows yet."""
        if not self._tasks:
            self._start()
        future: asyncio.Future[Result] = self._loop.create_future()
        futures = self._futures.get(request_id)
        if futures is None:
            self._futures[request_id] = {future}
        else:
            futures.add(future)
        if patient:
            self._patient.add(future)
        return future

    async def outcome(self, request_id: str, future: asyncio.Future[Result], timeout_s: float | None = None) -> Result:
        """Wait. Raises ResultTimeout, ResultExpired, RequestUnknown, BusloadUnavailable; leaves nothing behind."""
        timer = None
        if timeout_s is not None:
            timer = self._loop.call_later(timeout_s, _time_out, future, request_id, timeout_s)
        try:
            return await future
        finally:
            if timer is not None:
                timer.cancel()
            if request_id in self._futures:
                self.forget(request_id, future)

    def forget(self, request_id: str, future: asyncio.Future[Result]) -> None:
        """Nobody waits for this future any more."""
        self._patient.discard(future)
        futures = self._futures.get(request_id)
        if futures is None:
            return
        futures.discard(future)
        if not futures:
            del self._futures[request_id]
            self._leave(request_id)

    def look_up(self, request_ids: Iterable[str]) -> None:
        """Ask Redis about these ids soon, many in one call."""
        self._unseen.update(dict.fromkeys(request_ids))
        self._wake.set()

    def is_sending(self, request_id: str) -> bool:
        """Whether the id is still on its way to the queue."""
        return request_id in self._sending

    def sending(self, request_id: str) -> None:
        """The id is on its way to the queue: until `sent`, that the queue does not know it means nothing."""
        self._sending[request_id] = self._sending.get(request_id, 0) + 1

    def sent(self, request_id: str, state: SubmitState | None) -> None:
        """What became of it; None when it was refused. Only one that is new to the queue bears our token."""
        left = self._sending.pop(request_id, 1) - 1
        if left:  # its caller had given up, and sent it again
            self._sending[request_id] = left
        asked_for = not left and request_id in self._asked_for
        if not left:
            self._asked_for.discard(request_id)
        if state == "queued":
            self._own[request_id] = None
            if len(self._own) > _OWN_REMEMBERED:
                del self._own[next(iter(self._own))]
        elif state is not None:
            self._own.pop(request_id, None)
            asked_for = True
        if asked_for and request_id in self._futures:
            self.look_up((request_id,))

    async def close(self, error: BusloadError) -> None:
        """Stop listening; whoever still waits gets `error`."""
        tasks, self._tasks = self._tasks, []
        if self._tick_timer is not None:
            self._tick_timer.cancel()
        await _end(tasks)
        self._fail_all(error)

    def _start(self) -> None:
        self._tasks = [self._loop.create_task(self._listen()), self._loop.create_task(self._attend())]
        for task in self._tasks:
            task.add_done_callback(self._ended)
        if self._tick_timer is None:
            self._tick_timer = self._loop.call_later(TICK_S, self._tick)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A bug or a Redis nobody foresaw must not leave anybody waiting for ever."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._fail_all(BusloadError(f"waiting for results broke: {error!r}"))
            for other in self._tasks:
                other.cancel()
            self._tasks = []

    def _tick(self) -> None:
        oldest = list(islice(self._futures, _LOOKED_UP_PER_TICK))
        for request_id in oldest:  # to the back, so that each has its turn
            self._futures[request_id] = self._futures.pop(request_id)
        self.look_up(oldest)
        self._tick_timer = self._loop.call_later(TICK_S, self._tick)

    async def _listen(self) -> None:
        async with aclosing(self._inbox.events(self._open_mail)) as events:
            async for event in events:
                if isinstance(event, Mail):
                    self._open_mail(event)
                elif isinstance(event, LookAgain):
                    self.look_up(self._futures if event.ids is None else event.ids)
                elif isinstance(event, Lost):
                    self._lost(event.error)

    def _open_mail(self, mail: Mail) -> None:
        for result in mail.results:
            self._deliver(result)
        if mail.too_large:
            self.look_up(mail.too_large)

    def _lost(self, error: Exception) -> None:
        if is_transient(error):
            self.look_up(self._futures)  # it fails them, should Redis stay away
        else:
            self._fail_all(unavailable(error))

    async def _attend(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                while self._unseen:
                    ids = list(islice(self._unseen, _LOOKED_UP_PER_CALL))
                    for request_id in ids:
                        del self._unseen[request_id]
                    await self._look(ids)
            except BusloadUnavailable as error:
                self._unseen.clear()
                self._fail_all(error)
            left, self._left = self._left, set()
            await self._inbox.unwatch(left - self._futures.keys())

    async def _look(self, request_ids: list[str]) -> None:
        asked: dict[str, frozenset[asyncio.Future[Result]]] = {}
        for request_id in request_ids:
            if request_id in self._sending:
                self._asked_for.add(request_id)
            elif request_id in self._futures:
                asked[request_id] = frozenset(self._futures[request_id])
        if not asked:
            return
        for request_id, status in zip(asked, await statuses(self._queue, list(asked)), strict=True):
            self._settle(request_id, status, asked[request_id])
        await self._inbox.watch([i for i in asked if i in self._futures and i not in self._own])

    def _settle(
        self, request_id: str, status: RequestStatus | BusloadError, asked: Set[asyncio.Future[Result]]
    ) -> None:
        """`asked` are those that waited when the question was put: who came since may have sent the id since."""
        if isinstance(status, BusloadError):
            self._fail(request_id, status)
        elif status.result is not None:
            self._deliver(status.result)
        elif error := no_result(request_id, status.state):
            patient = self._patient if status.state == "unknown" else frozenset()
            self._fail(request_id, error, spare=patient | (self._futures.get(request_id, set()) - asked))

    def _deliver(self, result: Result) -> None:
        request_id = result.id
        self._own.pop(request_id, None)
        futures = self._futures.pop(request_id, None)
        if futures is None:
            return
        for future in futures:
            if not future.done():
                future.set_result(result)
        if self._patient:
            self._patient -= futures
        if request_id in self._inbox.watched:
            self._leave(request_id)

    def _fail(self, request_id: str, error: BusloadError, *, spare: Set[asyncio.Future[Result]] = frozenset()) -> None:
        for future in self._futures.get(request_id, set()) - spare:
            if not future.done():
                future.set_exception(type(error)(*error.args))

    def _fail_all(self, error: BusloadError) -> None:
        for request_id in self._futures:
            self._fail(request_id, type(error)(f"{request_id}: {error}"))

    def _leave(self, request_id: str) -> None:
        if request_id in self._inbox.watched:
            self._left.add(request_id)
            self._wake.set()


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel until they have ended: before Python 3.12 a cancel that meets redis-py's `wait_for` may be lost."""
    while tasks:
        for task in tasks:
            task.cancel()
        _, pending = await asyncio.wait(tasks, timeout=0.1)
        tasks = list(pending)


def _time_out(future: asyncio.Future[Result], request_id: str, timeout_s: float) -> None:
    if not future.done():
        future.set_exception(ResultTimeout(f"{request_id}: no result within {timeout_s:g} s"))
