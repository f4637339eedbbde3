"""Fixtures that need Redis.

    any_server, any_redis_url   one real server, 7.0 where there is one
    any_queue                   a Queue on `any_server`, with its clock held
    server, redis_url           a real server; the test runs once on each version
    real_queue                  a Queue on `server`, with its clock held
    queue                       a Queue with its clock held, on fakeredis and on each real server

Servers are started once for each test process and emptied before every test.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import NoReturn

import fakeredis
import pytest
from hypothesis import HealthCheck, settings
from redis.asyncio import Redis
from tests.redis_servers import WANTED, Server, Servers

from busload_shared.connection import open_redis
from busload_shared.queue import Queue

signal.signal(signal.SIGINT, signal.default_int_handler)
"""Who runs us in the background ignores Ctrl-C, and so would all that we start."""

settings.register_profile(
    "patient", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize="CI" in os.environ
)
settings.load_profile("patient")
"""On a busy machine an example may take a second. No test is about that."""

START_MS = 1_000_000.0
"""Where a held clock stands when a test begins."""

QUEUE = "busload:test"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "leaves_keys: breaks keys on purpose, so that some may stay for ever")


@pytest.fixture(scope="session")
def redis_servers() -> Iterator[Servers]:
    servers = Servers()
    yield servers
    servers.remove()


def missing(what: str, cure: str) -> NoReturn:
    """A missing server fails the run in CI, and is skipped elsewhere."""
    sentence = f"{what} is not installed here: {cure}"
    if os.environ.get("CI"):
        pytest.fail(sentence + " (CI must test on every version)")
    pytest.skip(sentence)


def get_server(servers: Servers, version: str) -> Server:
    if version not in servers:
        missing(f"redis-server {version}", WANTED[version])
    return servers.get(version)


@pytest.fixture
def any_server(redis_servers: Servers) -> Iterator[Server]:
    version = redis_servers.first()
    if version is None:
        missing("redis-server", " or ".join(WANTED.values()))
    server = redis_servers.get(version)
    yield server
    server.resume()


@pytest.fixture
def any_redis_url(any_server: Server) -> str:
    return any_server.url


@pytest.fixture
async def any_queue(any_server: Server, request: pytest.FixtureRequest) -> AsyncIterator[Queue]:
    async with _held_queue(open_redis(any_server.url), request) as queue:
        yield queue


@pytest.fixture(params=list(WANTED))
def server(request: pytest.FixtureRequest, redis_servers: Servers) -> Iterator[Server]:
    server = get_server(redis_servers, request.param)
    yield server
    server.resume()


@pytest.fixture
def redis_url(server: Server) -> str:
    return server.url


@pytest.fixture
async def real_queue(server: Server, request: pytest.FixtureRequest) -> AsyncIterator[Queue]:
    async with _held_queue(open_redis(server.url), request) as queue:
        yield queue


@pytest.fixture(params=["fake", *WANTED])
async def queue(request: pytest.FixtureRequest, redis_servers: Servers) -> AsyncIterator[Queue]:
    if request.param == "fake":
        redis: Redis = fakeredis.FakeAsyncRedis(server=fakeredis.FakeServer(version=(7,)))
    else:
        redis = open_redis(get_server(redis_servers, request.param).url)
    async with _held_queue(redis, request) as queue:
        yield queue


@asynccontextmanager
async def _held_queue(redis: Redis, request: pytest.FixtureRequest) -> AsyncIterator[Queue]:
    queue = Queue(redis, QUEUE, patience_s=0.0)
    queue.now_ms = START_MS
    yield queue
    leaks = [] if request.node.get_closest_marker("leaves_keys") else await immortal_keys(queue)
    await redis.aclose()
    assert not leaks, f"keys that would stay for ever: {leaks}"


async def immortal_keys(queue: Queue) -> list[str]:
    """Keys without a time to live, other than those that hold the queue itself."""
    k = queue.keys
    lasting = {k.queue, k.ranked, k.deadlines, k.retry, k.inflight, k.leases, k.batches, k.dead, k.stats}
    lasting |= {k.layout}
    found = sorted({key.decode("utf-8", "replace") async for key in queue.redis.scan_iter(count=1000)} - lasting)
    pipeline = queue.redis.pipeline(transaction=False)
    for key in found:
        pipeline.pttl(key)
    return [key for key, left in zip(found, await pipeline.execute(), strict=True) if left == -1]
