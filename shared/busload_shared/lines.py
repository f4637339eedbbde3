"""The connections on which scripts are called: past redis-py's retries, and past its pool between two calls.

We never use the former, and the latter's locks, counts and events cost as much as a call itself.
"""

from __future__ import annotations

from typing import Any

import hiredis
from redis.asyncio import Redis
from redis.asyncio.connection import ConnectionPool

from .packing import Direct


class Lines:
    """As many connections as calls run at once, opened by the client's pool and closed with it.

    A pool that follows its server chooses anew for each call. A client that is none of `open_redis`, a fake say, is
    asked in its own way.
    """

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._pool = redis.connection_pool
        self._plain = type(redis) is Redis and issubclass(self._pool.connection_class, Direct)
        self._kept = type(self._pool) is ConnectionPool
        self._idle: list[Direct] = []

    async def evalsha(self, *call: Any) -> Any:
        """Run a script that Redis holds. Raises what redis-py raises."""
        if not self._plain:
            return await self._redis.evalsha(*call)
        packed = hiredis.pack_command(("EVALSHA", *call))
        connection = await self._take()
        try:
            await connection.send_packed_command(packed)
            return await connection.read_response()
        finally:
            if self._kept and connection.is_connected:
                self._idle.append(connection)
            else:
                await self._pool.release(connection)

    async def _take(self) -> Direct:
        while self._idle:
            kept = self._idle.pop()
            if kept.is_quiet:
                return kept
            await kept.disconnect(nowait=True)
            await self._pool.release(kept)
        opened: Direct = await self._pool.get_connection()  # type: ignore[no-untyped-call]
        return opened
