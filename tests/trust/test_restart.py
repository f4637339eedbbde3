"""A Redis with the project's users keeps the queue over a restart, though nobody can be the default user."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
import redis
from tests.conftest import missing
from tests.queue.steps import answer, board, submit
from tests.redis_servers import WANTED, Servers
from tests.trust.guarded import QUEUE, Guarded

from busload_shared import scripts
from busload_shared.connection import open_redis
from busload_shared.queue import Queue


@pytest.fixture(params=list(WANTED))
def logged(request: pytest.FixtureRequest, redis_servers: Servers) -> Iterator[Guarded]:
    """A guarded server with an append-only file."""
    if request.param not in redis_servers:
        missing(f"redis-server {request.param}", WANTED[request.param])
    server = Guarded(redis_servers.binaries[request.param], request.param)
    server._more["appendonly"] = "yes"
    server.start()
    yield server
    server.remove()


async def test_what_scripts_wrote_outlives_a_restart(logged: Guarded) -> None:
    async with at_work(logged) as queue:
        await submit(queue, "a", "b", "c")
        claim = await board(queue, "batch", cap=2, lease=60_000)
        assert await queue.deliver("batch", [answer(claim.seats[0])], ttl_s=60) is not None
        before = await queue.info()
    with logged.client() as operator:
        operator.shutdown()
    logged.restart()
    async with at_work(logged) as queue:
        after = await queue.info()
        states = [one.state for one in await queue.status(["a", "b", "c"])]
    assert states == ["answered", "running", "waiting"]
    assert (after.waiting, after.inflight, after.counters) == (1, 1, before.counters)


@asynccontextmanager
async def at_work(server: Guarded) -> AsyncIterator[Queue]:
    """The queue, as a worker sees it."""
    redis = open_redis(server.url_for("worker"))
    try:
        await scripts.load_all(redis)
        yield Queue(redis, QUEUE, patience_s=5)
    finally:
        await redis.aclose()


async def test_nobody_is_the_default_user(logged: Guarded) -> None:
    for password in (None, "", "default"):
        with redis.Redis(port=logged.port, password=password) as client, pytest.raises(redis.AuthenticationError):
            client.ping()
