"""Running an iterable of requests: what `client.run` does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import count
from typing import Any, NamedTuple

from busload_shared.errors import BusloadError
from busload_shared.result import Result

from ..encoding import as_request, outgoing
from ..wiring import Wiring
from .flight import Answer, Flight
from .outcome import Given, Outcome

_READ_S = 0.01
"""How long an iterable is read before those that have landed are handed out."""

_Tag = tuple[int, Given, str]


class _Exchanged(NamedTuple):
    outcomes: list[Outcome]
    room: int
    is_over: bool


class Running:
    """The requests of one iterable, on their way through one client. Belongs to its event loop; close it."""

    def __init__(self, wiring: Wiring, *, in_flight: int) -> None:
        self._flight: Flight[_Tag] = Flight(wiring, in_flight=in_flight)
        self._positions = count()
        self._room = asyncio.Event()
        self.wake: Callable[[], None] = self._flight.wake
        self.changed: Callable[[], Coroutine[Any, Any, None]] = self._flight.changed
        self.close: Callable[[], None] = self._flight.close

    @property
    def room(self) -> int:
        """How many more may be sent now."""
        return self._flight.room

    @property
    def is_over(self) -> bool:
        """Whether nothing is under way."""
        return self._flight.count == 0

    def send(self, item: Given) -> None:
        """Put one on its way; one that breaks the contract lands at once."""
        position = next(self._positions)
        try:
            one = outgoing(as_request(item, {}))
        except BusloadError as error:
            self._flight.land((position, item, _id_of(item)), error)
        else:
            self._flight.send((position, item, one.id), one)

    def landed(self) -> list[Outcome]:
        """Those that have landed. Raises BusloadUnavailable."""
        outcomes = [_outcome(tag, answer) for tag, answer in self._flight.landed()]
        if self._flight.room:
            self._room.set()
        return outcomes

    async def feed(self, items: Iterable[Given] | AsyncIterable[Given]) -> None:
        """Send all, as there is room."""
        if isinstance(items, AsyncIterable):
            async for item in items:
                await self._wait_for_room()
                self.send(item)
            return
        for item in items:
            if not self._flight.room:
                await self._wait_for_room()
            self.send(item)

    async def exchange(self, items: list[Given], *, wait: bool) -> _Exchanged:
        """Send these and hand out what has landed; with `wait` once something has changed."""
        for item in items:
            self.send(item)
        await (self.changed() if wait and not self.is_over else asyncio.sleep(0))
        return _Exchanged(self.landed(), self._flight.room, self.is_over)

    async def end(self) -> None:
        """`close`, for another thread."""
        self.close()

    async def _wait_for_room(self) -> None:
        while not self._flight.room:
            self._room.clear()
            await self._room.wait()


async def run_async(
    wiring: Wiring, items: Iterable[Given] | AsyncIterable[Given], *, in_flight: int
) -> AsyncGenerator[Outcome, None]:
    """See `AsyncClient.run`."""
    running = Running(wiring, in_flight=in_flight)
    feeding = asyncio.get_running_loop().create_task(running.feed(items))
    feeding.add_done_callback(lambda _: running.wake())
    try:
        while not (feeding.done() and running.is_over):
            await running.changed()
            for outcome in running.landed():
                yield outcome
        feeding.result()
    finally:
        running.close()
        feeding.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await feeding


def run_sync(
    do: Callable[[Coroutine[Any, Any, Any]], Any], start: Coroutine[Any, Any, Running], items: Iterable[Given]
) -> Iterator[Outcome]:
    """See `Client.run`. `do` does work in the background loop; the iterable is read here, in the caller's thread."""
    running: Running = do(start)
    source = iter(items)
    try:
        ended, done = False, _Exchanged([], running.room, True)
        while not (ended and done.is_over):
            taken, ended = _take(source, done.room)
            done = do(running.exchange(taken, wait=ended or len(taken) >= done.room))
            yield from done.outcomes
    finally:
        with suppress(RuntimeError):  # the background loop has ended, or this is its thread: nothing is under way there
            do(running.end())


def _take(source: Iterator[Given], room: int) -> tuple[list[Given], bool]:
    """What the iterable gives within a moment, up to `room`; and whether it has ended."""
    taken: list[Given] = []
    until = time.monotonic() + _READ_S
    while len(taken) < room:
        try:
            taken.append(next(source))
        except StopIteration:
            return taken, True
        if time.monotonic() > until:
            break
    return taken, False


def _outcome(tag: _Tag, answer: Answer) -> Outcome:
    position, item, request_id = tag
    if isinstance(answer, Result):
        return Outcome(position, item, request_id, answer)
    return Outcome(position, item, request_id, None, answer)


def _id_of(item: Any) -> str:
    given = item.get("id") if isinstance(item, Mapping) else getattr(item, "id", None)
    return given if isinstance(given, str) else ""
