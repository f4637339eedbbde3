"""A guarded Redis of each version, and worker processes that work on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from tests.conftest import missing
from tests.redis_servers import WANTED, Servers
from tests.trust.guarded import QUEUE, Guarded
from tests.worker_process import WorkerProcess

from busload_shared.connection import open_redis
from busload_shared.queue import Queue


@pytest.fixture(scope="session")
def guarded_servers(redis_servers: Servers) -> Iterator[dict[str, Guarded]]:
    running: dict[str, Guarded] = {}
    yield running
    for server in running.values():
        server.remove()


def a_guarded(version: str, servers: Servers, running: dict[str, Guarded]) -> Guarded:
    """The guarded server of this version, running and empty."""
    if version not in servers:
        missing(f"redis-server {version}", WANTED[version])
    if version not in running:
        running[version] = Guarded(servers.binaries[version], version)
        running[version].start()
    running[version].reset()
    return running[version]


@pytest.fixture(params=list(WANTED))
def guarded(request: pytest.FixtureRequest, redis_servers: Servers, guarded_servers: dict[str, Guarded]) -> Guarded:
    return a_guarded(request.param, redis_servers, guarded_servers)


@pytest.fixture
async def queue_as(guarded: Guarded) -> AsyncIterator[Callable[..., Queue]]:
    """The queue, spoken to in a role."""
    made = []

    def connect(role: str, *, name: str = QUEUE) -> Queue:
        made.append(Queue(open_redis(guarded.url_for(role)), name, patience_s=0.2))
        return made[-1]

    yield connect
    for queue in made:
        await queue.redis.aclose()


@pytest.fixture
def start_worker() -> Iterator[Callable[..., WorkerProcess]]:
    """Start real worker processes; they are gone when the test ends."""
    started: list[WorkerProcess] = []

    def start(redis_url: str, **settings: object) -> WorkerProcess:
        started.append(WorkerProcess(redis_url, **settings))
        return started[-1]

    yield start
    for process in started:
        process.close()
