"""Listens to what a queue announces."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from tests.redis_servers import Server
from tests.upgrade.conftest import QUEUE


class Announced:
    """Counts how often each id was announced as answered."""

    def __init__(self, heard: PubSub) -> None:
        self._heard = heard
        self.by_id: Counter[str] = Counter()

    async def has(self, many: int) -> bool:
        """Whether so many were announced by now."""
        while (message := await self._heard.get_message(timeout=0.05)) is not None:
            self.by_id[message["channel"].decode().rpartition(":done:")[2]] += 1
        return self.by_id.total() >= many


@asynccontextmanager
async def announced(server: Server) -> AsyncIterator[Announced]:
    """Listens while the block lasts."""
    async with Redis(port=server.port) as redis, redis.pubsub(ignore_subscribe_messages=True) as heard:
        await heard.psubscribe("{" + QUEUE + "}:done:*")
        yield Announced(heard)
