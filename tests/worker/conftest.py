"""A worker in the test's own process, on a real Redis, with the fake engine: fast, and nothing of it is faked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from redis.asyncio import Redis
from tests.waiting import wait_until
from tests.worker_process import WorkerProcess

from busload_shared.connection import open_redis
from busload_shared.queue import Queue
from busload_shared.result import Result
from busload_worker.engine_keeper import make_engine
from busload_worker.engines.host import EngineHost
from busload_worker.settings import Settings
from busload_worker.worker import Worker

from .hosts import a_host

QUEUE = "busload:default"
PATIENCE_S = 60.0
"""Workers in the test's own event loop may keep it from hearing Redis for seconds, when what they read is hostile."""


class Depot:
    """One queue, its producers and the workers a test starts on it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.redis: Redis = open_redis(url, queue=QUEUE)
        self.redis.connection_pool.connection_kwargs["socket_timeout"] = PATIENCE_S
        self.queue = Queue(self.redis, QUEUE)
        self._clients: list[Redis] = []
        self._tasks: list[tuple[Worker, asyncio.Task[None]]] = []

    def settings(self, **named: Any) -> Settings:
        defaults = {"engine": "fake", "max_wait_ms": 20, "lease_s": 5, "drain_s": 5, "worker_name": "w1"}
        return Settings(redis_url=self.url, queue=QUEUE, **(defaults | named))

    async def start(self, **named: Any) -> Worker:
        """Start a worker and wait until it is ready."""
        tracing = named.pop("tracing_to", None)
        settings = self.settings(**named)
        redis, blocking = open_redis(self.url, queue=QUEUE), open_redis(self.url, queue=QUEUE)
        self._clients += (redis, blocking)
        worker = Worker(Queue(redis, QUEUE, patience_s=1), blocking, make_engine(settings), settings, quiet_s=0)
        worker.tracing = tracing
        self._tasks.append((worker, asyncio.create_task(worker.run())))

        async def ready() -> bool:
            return worker.vitals.looked_ms is not None

        await wait_until(ready, what="the worker is ready")
        return worker

    @property
    def workers(self) -> list[Worker]:
        return [worker for worker, _ in self._tasks]

    async def stop_workers(self) -> None:
        """Drain all workers."""
        for worker in self.workers:
            worker.stop()
        done = await asyncio.gather(*(task for _, task in self._tasks), return_exceptions=True)
        self._tasks.clear()
        assert not [error for error in done if isinstance(error, BaseException)], done

    async def stop(self) -> None:
        await self.stop_workers()
        for client in (*self._clients, self.redis):
            await client.aclose()

    async def push(self, *requests: dict[str, Any] | bytes) -> None:
        """Push raw, as any language does, in one command."""
        await self.redis.lpush(QUEUE, *[r if isinstance(r, bytes) else json.dumps(r) for r in requests])

    async def result(self, request_id: str, *, timeout_s: float = 20.0) -> Result:
        """The result, as an analyst polls it."""
        key = self.queue.keys.result(request_id)

        async def answered() -> bytes | None:
            return await self.redis.get(key)

        body = await wait_until(answered, timeout_s=timeout_s, what=f"result of {request_id}")
        assert body is not None
        return Result.model_validate_json(body)

    async def results(self, *request_ids: str) -> list[Result]:
        return [await self.result(request_id) for request_id in request_ids]

    async def settled(self) -> None:
        """Nothing waits, nothing is in flight, no lease is left."""

        async def empty() -> bool:
            info = await self.queue.info()
            return not (info.waiting or info.retry or info.inflight or info.leases)

        await wait_until(empty, what="the queue is empty")


@pytest.fixture
async def depot(any_redis_url: str) -> AsyncIterator[Depot]:
    depot = Depot(any_redis_url)
    yield depot
    await depot.stop()


@pytest.fixture
def request_of() -> Callable[..., dict[str, Any]]:
    """A raw request with an id, four tokens long unless said."""

    def make(request_id: str, **named: Any) -> dict[str, Any]:
        return {"id": request_id, "prompt": f"prompt of {request_id}", "max_tokens": 4} | named

    return make


@pytest.fixture
def start_process(any_redis_url: str) -> Iterator[Callable[..., WorkerProcess]]:
    """Start real worker processes; they are gone when the test ends."""
    started: list[WorkerProcess] = []

    def start(**settings: Any) -> WorkerProcess:
        started.append(WorkerProcess(settings.pop("redis_url", any_redis_url), **settings))
        return started[-1]

    yield start
    for process in started:
        process.close()


@pytest.fixture
async def host() -> AsyncIterator[EngineHost]:
    host = a_host()
    await host.start()
    yield host
    await host.kill()
