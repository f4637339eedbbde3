"""How full a Redis is."""

from __future__ import annotations

from typing import Any, NamedTuple

from redis.asyncio import Redis

from .connection import persist


class RedisMemory(NamedTuple):
    """Bytes. `limit` is Redis's `maxmemory`, or all the machine's memory where none is set; 0 when not known."""

    used: int
    limit: int


async def redis_memory(redis: Redis, *, patience_s: float) -> RedisMemory:
    """Ask Redis. Raises BusloadUnavailable."""
    told: dict[str, Any] = await persist(lambda: redis.info("memory"), patience_s=patience_s)
    limit = int(told.get("maxmemory", 0)) or int(told.get("total_system_memory", 0))
    return RedisMemory(used=int(told.get("used_memory", 0)), limit=limit)
