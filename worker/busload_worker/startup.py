"""What must be true before a worker takes its first batch. Each failure names the line to change."""

from __future__ import annotations

import re
from typing import Any

from redis.asyncio import Redis

from busload_shared.connection import persist
from busload_shared.errors import RedisUnfit
from busload_shared.layout import Layout
from busload_shared.queue import Queue
from busload_shared.replies import WorkerInfo
from busload_shared.scripts import load_all

from .housekeeping import RECORD_TTL_S

OLDEST_REDIS = (6, 2)
PATIENCE_S = 5.0


async def check_redis(redis: Redis) -> float:
    """Return the seconds this Redis has been up. Loads the scripts: producers may not be allowed to.

    Raises BusloadUnavailable if it cannot be reached, RedisUnfit if it is too old or would evict what waits.
    """
    info = await persist(lambda: _info(redis), patience_s=PATIENCE_S)
    version = str(info.get("redis_version", "0"))
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    if numbers < OLDEST_REDIS:
        raise RedisUnfit(f"Redis is {version}; Busload needs 6.2 or newer: upgrade it")
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        raise RedisUnfit(
            f"Redis may evict waiting requests (maxmemory-policy {policy}): write `maxmemory-policy noeviction` "
            "in redis.conf, or run `redis-cli CONFIG SET maxmemory-policy noeviction`"
        )
    await persist(lambda: load_all(redis), patience_s=PATIENCE_S)
    return float(info.get("uptime_in_seconds", 0))


async def check_layout(queue: Queue, record: WorkerInfo) -> None:
    """See that the queue's keys are of the layout this version works on. Raises RedisUnfit if not.

    The second look is for a `busload migrate` that began meanwhile: it marks the keys and then looks for workers, we
    say that we are there and then look at the mark, so that one of the two sees the other.
    """
    layout = Layout(queue.redis, queue.keys.queue, patience_s=PATIENCE_S)
    await layout.check()
    await queue.heartbeat(record, ttl_s=RECORD_TTL_S)
    try:
        await layout.check()
    except RedisUnfit:
        await queue.farewell(record.name)
        raise


async def _info(redis: Redis) -> dict[str, Any]:
    server: dict[str, Any] = await redis.info("server")
    memory: dict[str, Any] = await redis.info("memory")
    return server | memory
