"""What every connection of ours does besides redis-py's own: it packs with hiredis, writes and reads without detours,
and leaves a server that moved."""

from __future__ import annotations

from typing import Any

import hiredis
from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError, ResponseError

from .error_codes import is_elsewhere
from .wire import CLOSED, NOTHING, Listener, WireParser


class Direct(AbstractConnection):
    """redis-py packs in Python, at twelve times the cost; it sends every command in a task of its own, under a timer;
    and it reads each reply through a stream, under another. What is at hand at once needs none of that. All else, every
    error too, is left to redis-py."""

    _parser: WireParser

    def set_parser(self, parser_class: Any) -> None:  # noqa: ARG002
        self._parser = WireParser(self._socket_read_size)

    @property
    def is_quiet(self) -> bool:
        """Whether it is open, and nobody's late reply lies in it."""
        wire = self._parser.wire
        return wire is not None and wire.is_quiet

    def listen(self, listener: Listener) -> None:
        """Show `listener` each reply as it comes in, until the connection is lost: see Wire."""
        if self._parser.wire is not None:
            self._parser.wire.listener = listener

    def pack_command(self, *args: Any) -> list[bytes]:
        """Arguments are str, bytes, int or float."""
        name, *rest = args
        words = name.split() if isinstance(name, str) else [name]
        return [hiredis.pack_command((*words, *rest))]

    async def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        wire = self._parser.wire
        if wire is None:
            return await super().send_packed_command(command, check_health)
        if not wire.is_open:  # uvloop's would raise what nobody expects
            await self.disconnect(nowait=True)
            raise ConnectionError(CLOSED)
        wire.transport.write(command if isinstance(command, bytes) else b"".join(command))
        if wire.transport.get_write_buffer_size():
            await super().send_packed_command([], check_health)
        return None

    async def read_response(self, *args: Any, **options: Any) -> Any:
        wire = self._parser.wire
        if wire is None or args or options:
            return await super().read_response(*args, **options)
        try:
            await wire.something(self.socket_timeout)
        except BaseException:
            await self.disconnect(nowait=True)  # the reply is under way
            raise
        reply = wire.sound_reply()
        return await super().read_response() if reply is NOTHING else reply


class _Leaves(AbstractConnection):
    """A connection to a server that is no longer ours is closed, or a client would stay on it for ever: the next
    command connects anew, to wherever the name or the route leads by then."""

    async def read_response(self, *args: Any, **options: Any) -> Any:
        try:
            return await super().read_response(*args, **options)
        except ResponseError as error:
            if is_elsewhere(error):
                await self.disconnect(nowait=True)
            raise


def adapt_connections(redis: Redis) -> Redis:
    """Let all connections this client will open be of ours."""
    pool = redis.connection_pool
    given: type[AbstractConnection] = pool.connection_class
    pool.connection_class = type(f"Busload{given.__name__}", (Direct, _Leaves, given), {})
    return redis
