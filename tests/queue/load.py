"""Clients and worker processes that go on while a test breaks the Redis under them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from redis.asyncio import Redis
from tests.waiting import wait_until
from tests.worker_process import WorkerProcess

from busload import AsyncClient, BusloadError, Result
from busload_shared.connection import open_redis
from busload_shared.queue import Queue


@asynccontextmanager
async def worker_on(url: str, queue: str, **settings: Any) -> AsyncIterator[WorkerProcess]:
    """A real worker process on this queue, ready."""
    process = WorkerProcess(url, queue=queue, **({"max_batch_size": 8, "lease_s": 2, "log_format": "json"} | settings))
    try:
        yield await process.ready()
    finally:
        process.close()


@asynccontextmanager
async def queue_at(url: str, name: str) -> AsyncIterator[Queue]:
    """The queue, for looking at it."""
    redis: Redis = open_redis(url, queue=name)
    yield Queue(redis, name, patience_s=10)
    await redis.aclose()


class Load:
    """Lanes that ask one request after another. What raises is asked again under the same id, until it is answered."""

    def __init__(self, client: AsyncClient, *, lanes: int = 6) -> None:
        self.client = client
        self.results: dict[str, Result] = {}
        self.answered_at: list[float] = []
        self.errors: list[tuple[str, BusloadError]] = []
        self._lanes = lanes
        self._stop = False
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Load:
        self._tasks = [asyncio.create_task(self._lane(number)) for number in range(self._lanes)]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _lane(self, number: int) -> None:
        count = 0
        while not self._stop:
            await self._ask(f"{number}-{count}")
            count += 1

    async def _ask(self, name: str) -> None:
        while True:
            try:
                result = await self.client.generate(id=name, prompt=f"prompt of {name}", max_tokens=4, timeout_s=60)
            except BusloadError as error:
                self.errors.append((name, error))
                await asyncio.sleep(0.1)
                continue
            self.results[name] = result
            self.answered_at.append(time.monotonic())
            return

    async def goes_on(self, *, more: int = 30, timeout_s: float = 60) -> None:
        """Wait until so many more are answered."""
        wanted = len(self.results) + more

        async def enough() -> bool:
            broken = [task for task in self._tasks if task.done() and not self._stop]
            assert not broken, broken
            return len(self.results) >= wanted

        await wait_until(enough, timeout_s=timeout_s, what=f"{more} more answers; errors: {self.errors[-3:]}")

    async def end(self, *, timeout_s: float = 90) -> dict[str, Result]:
        """Let every lane finish what it asks. Returns all results; all succeeded, and are the right ones."""
        self._stop = True
        await asyncio.wait_for(asyncio.gather(*self._tasks), timeout_s)
        wrong = [r for r in self.results.values() if r.status != "succeeded" or f":{r.id}:" not in r.text]
        assert not wrong, wrong[:3]
        return self.results


async def settled(queue: Queue) -> None:
    """Nothing waits, nothing is in flight, no lease is left."""

    async def empty() -> bool:
        info = await queue.info()
        return not (info.waiting or info.retry or info.inflight or info.leases)

    await wait_until(empty, timeout_s=40, what="the queue is empty")
