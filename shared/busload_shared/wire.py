"""Replies of Redis, parsed where the event loop hands over the bytes: without a stream and a timer for each read."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import hiredis
from redis._parsers.base import AsyncBaseParser
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError, InvalidResponse

NOTHING: Final = object()

CLOSED = "Connection closed by server."

Listener = Callable[[Any], bool]


class Wire(asyncio.Protocol):
    """One socket, taken over from the stream with which redis-py opened it.

    `listener` is shown each reply as it comes in, and keeps from the reader what it returns True for. One reader at
    a time.
    """

    def __init__(self, stream: asyncio.StreamReader, transport: asyncio.WriteTransport, reply_error: Any) -> None:
        self.listener: Listener | None = None
        self.transport = transport
        self._loop = asyncio.get_running_loop()
        self._parser = hiredis.Reader(protocolError=InvalidResponse, replyError=reply_error, notEnoughData=NOTHING)
        self._replies: deque[Any] = deque()
        self._failure: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._deadline = 0.0
        self._watchdog: asyncio.TimerHandle | None = None
        self._opened_by = transport.get_protocol()
        transport.set_protocol(self)
        if early := stream._buffer:  # type: ignore[attr-defined]  # a server that is full says so unasked
            self.data_received(bytes(early))
            early.clear()
        if stream.at_eof():
            self._fail(stream.exception())

    def data_received(self, data: bytes) -> None:
        """Parse what came in."""
        try:
            self._parser.feed(data)
            while (reply := self._parser.gets()) is not NOTHING:
                if self.listener is None or not self.listener(reply):
                    self._replies.append(reply)
        except Exception as error:  # the reader's to raise, also what the listener did wrong
            self._fail(error)
        if self._replies:
            self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Whoever waits is told."""
        self._fail(exc)
        if self._watchdog is not None:
            self._watchdog.cancel()
        self._opened_by.connection_lost(exc)

    def pause_writing(self) -> None:
        """redis-py's writer waits then."""
        self._opened_by.pause_writing()

    def resume_writing(self) -> None:
        """It goes on."""
        self._opened_by.resume_writing()

    @property
    def is_open(self) -> bool:
        """Whether it can be written to."""
        return not self.transport.is_closing()

    @property
    def is_quiet(self) -> bool:
        """Whether it is open, and nothing has come that nobody asked for."""
        return not self._replies and self._failure is None and not self._parser.has_data()

    def sound_reply(self) -> Any:
        """The next reply, or NOTHING: while there is none, and when it, or the wire, is an error."""
        replies = self._replies
        if not replies or _is_error(replies[0]):
            return NOTHING
        return replies.popleft()

    def reply(self) -> Any:
        """The next reply. Raises what broke the wire; NOTHING while it is whole and nothing came."""
        if self._replies:
            return self._replies.popleft()
        if self._failure is not None:
            raise self._failure
        return NOTHING

    def something(self, timeout_s: float | None = None) -> asyncio.Future[None]:
        """Done once there is a reply, or will be none. After `timeout_s` the wire counts as broken: by TimeoutError."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiter = waiter
        if self._replies or self._failure is not None:
            waiter.set_result(None)
        elif timeout_s is not None:
            self._deadline = self._loop.time() + timeout_s
            if self._watchdog is None:
                self._watchdog = self._loop.call_at(self._deadline, self._look)
        return waiter

    def _look(self) -> None:
        """One timer serves many reads: it looks when the first of them would be late, and then for the last."""
        self._watchdog = None
        if self._waiter is None or self._waiter.done():
            return
        if self._loop.time() < self._deadline:
            self._watchdog = self._loop.call_at(self._deadline, self._look)
        else:
            self._fail(TimeoutError())

    def _fail(self, error: Exception | None) -> None:
        if self._failure is None:
            self._failure = error or ConnectionError(CLOSED)
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _is_error(reply: Any) -> bool:
    first = reply[0] if type(reply) is list and reply else reply
    return isinstance(first, Exception)


class WireParser(AsyncBaseParser):
    """redis-py's way to read from a wire. Decodes nothing."""

    def __init__(self, socket_read_size: int) -> None:
        super().__init__(socket_read_size)
        self.wire: Wire | None = None

    def on_connect(self, connection: AbstractConnection) -> None:
        """The socket is open; nothing was asked yet."""
        assert connection._reader is not None
        assert connection._writer is not None
        self.wire = Wire(connection._reader, connection._writer.transport, self.parse_error)

    def on_disconnect(self) -> None:
        """A read under way may end; no other begins."""
        self.wire = None

    async def can_read(self) -> bool:
        """Whether there is a reply, or the connection is lost."""
        if self.wire is None:
            raise OSError("Buffer is closed.")
        return not self.wire.is_quiet

    async def can_read_destructive(self) -> bool:
        """As redis-py before 8 calls it."""
        return await self.can_read()

    async def read_response(self, disable_decoding: bool = False) -> Any:  # noqa: ARG002
        """The next reply; an error that is one is returned, not raised, unless it ends the connection."""
        if (wire := self.wire) is None:
            raise ConnectionError(CLOSED)
        while (reply := wire.reply()) is NOTHING:
            await wire.something()
        first = reply[0] if isinstance(reply, list) and reply else reply
        if isinstance(first, ConnectionError):
            raise first
        return reply
