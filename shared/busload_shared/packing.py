"""What every connection of ours does besides redis-py's own: packs with hiredis, and leaves a server that moved."""

from __future__ import annotations

from typing import Any

import hiredis
from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ResponseError

from .error_codes import is_elsewhere


class _Packs:
    """redis-py packs in Python, at twelve times the cost. Arguments are str, bytes, int or float."""

    def pack_command(self, *args: Any) -> list[bytes]:
        name, *rest = args
        words = name.split() if isinstance(name, str) else [name]
        return [hiredis.pack_command((*words, *rest))]


class _Sends(AbstractConnection):
    """redis-py sends every command in a task of its own, under a timer: a fifth of a call's cost. What
    the socket takes at once needs neither; what it does not is left to redis-py."""

    async def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        writer = self._writer
        if writer is None or writer.transport.is_closing():
            return await super().send_packed_command(command, check_health)
        writer.writelines([command] if isinstance(command, bytes) else command)
        if writer.transport.get_write_buffer_size():
            await super().send_packed_command([], check_health)
        return None


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
    pool.connection_class = type(f"Busload{given.__name__}", (_Packs, _Sends, _Leaves, given), {})
    return redis
