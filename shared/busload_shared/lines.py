"""The connections on which scripts are called: past redis-py's retries, and past its pool between two calls.

We never use the former, and the latter's locks, counts and events cost as much as a call itself.
"""

from __future__ import annotations

from typing import Any

from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.exceptions import RedisError


class Lines:
    """As many connections as calls run at once, opened by the client's pool and closed with it.

    A pool that follows its server chooses anew for each call. A client that is no redis-py client of its own, a fake
    say, is asked in its own way.
    """

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._pool = redis.connection_pool
        self._plain = type(redis) is Redis
        self._kept = type(self._pool) is ConnectionPool
        self._idle: list[AbstractConnection] = []

    async def evalsha(self, *call: Any) -> Any:
        """Run a script that Redis holds. Raises what redis-py raises."""
        if not self._plain:
            return await self._redis.evalsha(*call)
        connection = await self._take()
        try:
            await connection.send_command("EVALSHA", *call)
            return await connection.read_response()
        finally:
            if self._kept and connection.is_connected:
                self._idle.append(connection)
            else:
                await self._pool.release(connection)

    async def _take(self) -> AbstractConnection:
        while self._idle:
            connection = self._idle.pop()
            if await _fit(connection):
                return connection
            await connection.disconnect(nowait=True)
            await self._pool.release(connection)
        taken: AbstractConnection = await self._pool.get_connection()  # type: ignore[no-untyped-call]
        return taken


async def _fit(connection: AbstractConnection) -> bool:
    """Whether it is open, and nobody's late reply lies in it."""
    try:
        return connection.is_connected and not await connection.can_read()
    except (RedisError, OSError):
        return False
