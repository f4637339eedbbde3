"""A queue as operators reach it: the whole of it, not only what a producer's client offers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from busload_shared.connection import open_redis
from busload_shared.queue import Queue


@asynccontextmanager
async def queue_on(redis_url: str, name: str, *, patience_s: float) -> AsyncIterator[Queue]:
    """The queue while the block lasts. Raises SettingsInvalid for a URL or a name that is none."""
    queue = Queue(open_redis(redis_url, queue=name), name, patience_s=patience_s)
    try:
        yield queue
    finally:
        await queue.redis.aclose()
