"""A gateway, a worker with the fake engine and a Redis, real processes, shared by the tests that do them no harm."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import AsyncOpenAI, OpenAI
from tests.conftest import missing
from tests.gateway.gateway_process import GatewayProcess
from tests.redis_servers import WANTED, Server, Servers
from tests.waiting import wait_until
from tests.worker_process import WorkerProcess

from busload_shared.connection import open_redis
from busload_shared.element import Element
from busload_shared.queue import Queue
from busload_shared.request import Request, parse_request


@dataclass(frozen=True)
class Town:
    """All three, up. `redis_url` is for looking into the queue."""

    gateway: GatewayProcess
    worker: WorkerProcess
    redis_url: str

    @property
    def url(self) -> str:
        return self.gateway.url


@pytest.fixture(scope="session")
def town_redis() -> Iterator[Server]:
    """A Redis of the gateway tests' own: nobody empties it between tests."""
    servers = Servers()
    version = servers.first()
    if version is None:
        missing("redis-server", " or ".join(WANTED.values()))
    yield servers.get(version)
    servers.remove()


@pytest.fixture(scope="session")
def town(town_redis: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    folder = tmp_path_factory.mktemp("gateway")
    worker = WorkerProcess(town_redis.url, max_wait_ms=5)
    gateway = GatewayProcess(town_redis.url, files_folder=folder / "files", model_names="alias")
    try:
        asyncio.run(_up(worker, gateway))
        yield Town(gateway, worker, town_redis.url)
    finally:
        gateway.close()
        worker.close()


async def _up(worker: WorkerProcess, gateway: GatewayProcess) -> None:
    await worker.ready()
    async with httpx.AsyncClient(base_url=gateway.listening().url, timeout=30) as client:

        async def seen() -> bool:
            return bool((await client.get("/v1/models")).json()["data"])

        await wait_until(seen, what="the gateway sees the worker")


@pytest.fixture
def openai(town: Town) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{town.url}/v1", api_key="none", max_retries=0, timeout=30) as client:
        yield client


@pytest.fixture
async def async_openai(town: Town) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{town.url}/v1", api_key="none", max_retries=0, timeout=30) as client:
        yield client


@pytest.fixture
def http(town: Town) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=town.url, timeout=30) as client:
        yield client


@pytest.fixture
def start_gateway(any_redis_url: str) -> Iterator[Callable[..., GatewayProcess]]:
    """Start gateways with settings of their own, on the test's own Redis; they are gone when the test ends."""
    started: list[GatewayProcess] = []

    def start(**settings: Any) -> GatewayProcess:
        started.append(GatewayProcess(settings.pop("redis_url", any_redis_url), **settings))
        return started[-1].listening()

    yield start
    for process in started:
        process.close()


@pytest.fixture
def start_worker(any_redis_url: str) -> Iterator[Callable[..., WorkerProcess]]:
    """Start worker processes on the test's own Redis."""
    started: list[WorkerProcess] = []

    def start(**settings: Any) -> WorkerProcess:
        started.append(WorkerProcess(any_redis_url, **({"max_wait_ms": 5} | settings)))
        return started[-1]

    yield start
    for process in started:
        process.close()


@pytest.fixture
async def lone_queue(any_redis_url: str) -> AsyncIterator[Queue]:
    """The default queue of the test's own Redis."""
    redis = open_redis(any_redis_url)
    yield Queue(redis, "busload:default")
    await redis.aclose()


@pytest.fixture
def waiting_in() -> Callable[[Queue], Any]:
    """What waits in a queue, as requests, oldest first."""

    async def look(queue: Queue) -> list[Request]:
        return [parse_request(Element.parse(raw, latest_ms=0).payload) for raw in await queue.peek(100)]

    return look


@pytest.fixture
def keys_file(tmp_path: Path) -> Path:
    return tmp_path / "keys.toml"
