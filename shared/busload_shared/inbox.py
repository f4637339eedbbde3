"""The one pub/sub connection of a client: here results come in as workers deliver them."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import FailFast, TypeAdapter, ValidationError
from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.exceptions import ConnectionError, RedisError

from .following import FollowingPool
from .keys import Keys
from .packing import Direct
from .result import Result

SILENCE_S = 5.0
"""After this long without a message the connection is asked whether it lives; after as long again it is dead."""

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 1.0
_BROKEN = (RedisError, OSError, AttributeError)
"""AttributeError: redis-py writes to a connection that another task has closed meanwhile."""

_RESULTS = TypeAdapter(Annotated[list[Result], FailFast()])
_RESULTS_AND_IDS = TypeAdapter(Annotated[list[Result | str], FailFast()])


@dataclass(frozen=True, slots=True)
class Mail:
    """Results for this client. `too_large` names those that are not sent here: read their keys."""

    results: list[Result]
    too_large: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class LookAgain:
    """Something may have been published that did not come in: read the keys of `ids`; None means of all."""

    ids: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Lost:
    """The connection is gone, or could not be made. The inbox tries again by itself."""

    error: Exception


Event = Mail | LookAgain | Lost


class Inbox:
    """Listens to the reply channel of the client called `token`, and to the done channels of watched ids.

    A message is published once and to those who listen at that moment. So every (re)subscription is followed by
    a LookAgain, and whoever reads the key after it misses nothing.
    """

    def __init__(self, redis: Redis, keys: Keys, token: str) -> None:
        self._pool: ConnectionPool = redis.connection_pool
        self._reply = keys.reply(token).encode()
        self._done = keys.done("").encode()
        self._connection: AbstractConnection | None = None
        self._listening = False
        self._mail_came = False
        self._deliver: Callable[[Mail], None] | None = None
        self.watched: set[str] = set()

    async def events(self, deliver: Callable[[Mail], None] | None = None) -> AsyncGenerator[Event, None]:
        """Everything that happens, for ever. Reconnects with growing pauses and jitter. For one reader at a time.

        Mail goes to `deliver`, if it is given, in the moment that it comes in.
        """
        self._deliver = deliver
        pause = _FIRST_PAUSE_S
        while True:
            began = time.monotonic()
            self._pool = self._next_pool()
            connection: AbstractConnection = self._pool.make_connection()  # type: ignore[no-untyped-call]
            try:
                await self._subscribe(connection)
                while True:
                    for event in self._read(await self._next_reply(connection)):
                        yield event
            except _BROKEN as error:
                lost = Lost(ConnectionError(repr(error)) if isinstance(error, AttributeError) else error)
            finally:
                self._connection, self._listening = None, False
                await _close(connection)
            yield lost
            if time.monotonic() - began > _LONGEST_PAUSE_S:
                pause = _FIRST_PAUSE_S
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    async def watch(self, ids: Iterable[str]) -> None:
        """Listen for these ids too. A LookAgain follows for each once Redis has confirmed it."""
        fresh = [request_id for request_id in ids if request_id not in self.watched]
        self.watched.update(fresh)
        await self._send("SUBSCRIBE", fresh)

    async def unwatch(self, ids: Iterable[str]) -> None:
        """Listen for these ids no more."""
        gone = [request_id for request_id in ids if request_id in self.watched]
        self.watched.difference_update(gone)
        await self._send("UNSUBSCRIBE", gone)

    async def _subscribe(self, connection: AbstractConnection) -> None:
        await connection.connect()  # type: ignore[no-untyped-call]
        self._connection = connection
        if isinstance(connection, Direct):
            connection.listen(self._takes)
        # the reply channel last: its confirmation then stands for all
        await connection.send_command("SUBSCRIBE", *map(self._channel, self.watched), *self._own_channels())

    async def _send(self, command: str, ids: list[str]) -> None:
        connection = self._connection
        if not ids or connection is None or not connection.is_connected:
            return  # the next subscription has them
        with suppress(*_BROKEN):  # the reader finds it broken too, and subscribes anew
            await connection.send_command(command, *map(self._channel, ids))

    def _next_pool(self) -> ConnectionPool:
        return self._pool

    def _own_channels(self) -> list[bytes]:
        return [self._reply]

    def _channel(self, request_id: str) -> bytes:
        return self._done + request_id.encode()

    def _id_of(self, channel: bytes) -> str:
        return channel[len(self._done) :].decode("utf-8", "replace")

    async def _next_reply(self, connection: AbstractConnection) -> list[bytes]:
        reply: list[bytes] | None = await connection.read_response(timeout=SILENCE_S)
        if reply is None:
            if isinstance(self._pool, FollowingPool) and self._pool.has_left(connection):
                raise ConnectionError("the queue is on another server now")  # this one lives, and will say nothing
            await connection.send_command("PING")
            self._mail_came = True
            while reply is None and self._mail_came:  # its answer may stand behind much mail
                self._mail_came = False
                reply = await connection.read_response(timeout=SILENCE_S)
        if reply is None:
            raise ConnectionError(f"no answer to PING within {SILENCE_S:.0f} s")
        return reply

    def _takes(self, reply: Any) -> bool:
        """Delivers mail at once; all else is left to the reader."""
        if self._deliver is None or type(reply) is not list or reply[0] != b"message" or not self._is_own(reply[1]):
            return False
        event = self._letter(reply[2])
        if not isinstance(event, Mail):
            return False
        self._mail_came = True
        self._deliver(event)
        return True

    def _is_own(self, channel: bytes) -> bool:
        return channel == self._reply

    def _read(self, reply: list[bytes]) -> list[Event]:
        kind, channel = reply[0], reply[1]
        if kind == b"message":
            return [self._letter(reply[2]) if channel == self._reply else self._news(channel)]
        if kind == b"subscribe":
            if channel == self._reply:
                self._listening = True
                return [LookAgain(None)]
            if self._listening:
                return [self._news(channel)]
        return []

    def _news(self, channel: bytes) -> LookAgain:
        return LookAgain((self._id_of(channel),))

    def _letter(self, letter: bytes) -> Event:
        try:
            return Mail(_RESULTS.validate_json(letter))  # a third cheaper than the union, and nearly always right
        except ValidationError:
            return _mixed(letter)


def _mixed(letter: bytes) -> Event:
    try:
        items = _RESULTS_AND_IDS.validate_json(letter)
    except ValidationError:  # of a newer version perhaps: the keys tell which one it is
        return LookAgain(None)
    return Mail([item for item in items if isinstance(item, Result)], [item for item in items if isinstance(item, str)])


async def _close(connection: AbstractConnection) -> None:
    with suppress(RedisError, OSError):
        await connection.disconnect(nowait=True)
