"""Requests under way: sent, waited for, and sent again where the queue was full or lost them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Generic, TypeVar

from busload_shared.errors import (
    BusloadError,
    BusloadUnavailable,
    NotReplicated,
    QueueFull,
    RequestUnknown,
    ResultExpired,
    SettingsInvalid,
)
from busload_shared.result import Result

from ..encoding import Outgoing
from ..wiring import Wiring

IN_FLIGHT = 512
"""Requests under way at once, unless told otherwise: several batches for each of a few workers."""

_SHORTEST_WAIT_S, _LONGEST_WAIT_S, _UNTOLD_WAIT_S = 0.05, 30.0, 1.0
"""Bounds of the wait at a full queue, and the wait while no worker has told its rate."""

_LOST = (RequestUnknown, ResultExpired, NotReplicated)
_TIMES_LOST = 5
"""A request that Redis lost so often is given up."""

Tag = TypeVar("Tag")
Answer = Result | BusloadError


@dataclass(slots=True, eq=False)
class _Sent(Generic[Tag]):
    tag: Tag
    one: Outgoing
    times_lost: int = 0


class Flight(Generic[Tag]):
    """Up to `in_flight` requests under way. What lands is a result, or the error that concerns this request alone.

    A full queue is waited for as long as it says; so long there is no room for others. BusloadUnavailable concerns
    all: `landed` raises it, once the queue's patience is used up. Belongs to the wiring's event loop; close it.
    """

    def __init__(self, wiring: Wiring, *, in_flight: int = IN_FLIGHT) -> None:
        if in_flight < 1:
            raise SettingsInvalid(f"in_flight={in_flight}: give 1 or more")
        self._wiring = wiring
        self._limit = in_flight
        self._under_way: dict[asyncio.Future[Result], _Sent[Tag]] = {}
        self._held: list[_Sent[Tag]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._landed: list[tuple[Tag, Answer]] = []
        self._news = asyncio.Event()
        self._broken: BusloadUnavailable | None = None
        self.refusals: int = 0
        """Times a request met a full queue."""

    @property
    def count(self) -> int:
        """Requests that have not been handed out by `landed` yet."""
        return len(self._under_way) + len(self._held) + len(self._landed)

    @property
    def room(self) -> int:
        """How many more may be sent now; none while the queue is full."""
        return 0 if self._held or self._broken else max(0, self._limit - self.count)

    def send(self, tag: Tag, one: Outgoing) -> None:
        """Put a request on its way; it lands under this tag."""
        self._send(_Sent(tag, one))

    def land(self, tag: Tag, answer: Answer) -> None:
        """For what needs no sending: it is wrong, or known already."""
        self._landed.append((tag, answer))
        self._news.set()

    def landed(self) -> list[tuple[Tag, Answer]]:
        """All that have landed since the last call. Raises BusloadUnavailable once these have been handed out."""
        if self._broken is not None and not self._landed:
            raise self._broken
        landed, self._landed = self._landed, []
        return landed

    async def changed(self) -> None:
        """Wait until something has landed, there is room again, or `wake` was called; at times for less."""
        if not self._landed and self._broken is None:
            await self._news.wait()
        self._news.clear()

    def wake(self) -> None:
        """Whoever waits in `changed` has something else to see to."""
        self._news.set()

    def close(self) -> None:
        """Wait no more for what is under way. The requests go on."""
        if self._timer is not None:
            self._timer.cancel()
        under_way, self._under_way = self._under_way, {}
        for future, sent in under_way.items():
            self._wiring.waiting.forget(sent.one.id, future)
            future.cancel()

    def _send(self, sent: _Sent[Tag]) -> None:
        future = self._wiring.send_and_expect(sent.one)
        self._under_way[future] = sent
        future.add_done_callback(self._done)

    def _done(self, future: asyncio.Future[Result]) -> None:
        sent = self._under_way.pop(future, None)
        if sent is None:  # closed meanwhile
            return
        error = future.exception()
        if error is None:
            self.land(sent.tag, future.result())
            return
        self._wiring.waiting.forget(sent.one.id, future)
        self._went_wrong(sent, error)

    def _went_wrong(self, sent: _Sent[Tag], error: BaseException) -> None:
        if isinstance(error, QueueFull):
            self.refusals += 1
            wait_s = _UNTOLD_WAIT_S if error.expected_wait_s is None else error.expected_wait_s
            self._hold(sent, min(max(wait_s, _SHORTEST_WAIT_S), _LONGEST_WAIT_S))
        elif isinstance(error, _LOST) and sent.times_lost < _TIMES_LOST:
            sent.times_lost += 1
            self._hold(sent, _SHORTEST_WAIT_S)
        elif isinstance(error, BusloadError) and not isinstance(error, BusloadUnavailable):
            self.land(sent.tag, error)
        else:
            self._broken = error if isinstance(error, BusloadUnavailable) else BusloadUnavailable(repr(error))
            self._news.set()

    def _hold(self, sent: _Sent[Tag], wait_s: float) -> None:
        self._held.append(sent)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._release)

    def _release(self) -> None:
        self._timer = None
        held, self._held = self._held, []
        for sent in held:
            self._send(sent)
        self._news.set()
