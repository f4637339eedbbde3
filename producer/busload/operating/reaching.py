"""A queue as operators reach it: the whole of it, not only what a producer's client offers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from busload_shared.opening import open_queue
from busload_shared.queue import Queue


def queue_at(redis_url: str, name: str, *, partitions: int = 1, patience_s: float) -> Queue:
    """The queue; close it at the end. Raises SettingsInvalid for a URL or a name that is none."""
    return open_queue(redis_url, name, partitions=partitions, patience_s=patience_s)


@asynccontextmanager
async def queue_on(redis_url: str, name: str, *, partitions: int = 1, patience_s: float) -> AsyncIterator[Queue]:
    """The queue while the block lasts. Raises SettingsInvalid for a URL or a name that is none."""
    queue = queue_at(redis_url, name, partitions=partitions, patience_s=patience_s)
    try:
        yield queue
    finally:
        await queue.close()
