"""The blocking peek: it changes nothing, wakes everybody, and cannot outlast the read timeout."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from redis.asyncio import Redis
from tests.queue.steps import board, content, ids, push, submit
from tests.redis_servers import Server

from busload_shared import connection
from busload_shared import queue as queue_module
from busload_shared.connection import LONGEST_BLOCK_S, READ_TIMEOUT_S, open_redis
from busload_shared.queue import Queue

Peek = Callable[[], Awaitable[bool]]


@pytest.fixture
async def blocking(server: Server) -> AsyncIterator[Redis]:
    redis = open_redis(server.url)
    yield redis
    await redis.aclose()


async def blocked(server: Server, count: int = 1) -> None:
    """Until so many clients are blocked."""
    with server.client() as client:
        for _ in range(1000):
            if int(client.info("clients")["blocked_clients"]) >= count:
                return
            await asyncio.sleep(0.005)
    pytest.fail("nobody blocks")


async def test_somebody_who_waits_already_is_seen_at_once(real_queue: Queue, blocking: Redis) -> None:
    await submit(real_queue, "a")
    assert await real_queue.wait_for_arrival(blocking, timeout_s=1)


async def test_peeking_changes_nothing(real_queue: Queue, blocking: Redis) -> None:
    await submit(real_queue, "a", "b", "c")
    await push(real_queue, "raw", b"")
    before = await content(real_queue)
    for _ in range(3):
        assert await real_queue.wait_for_arrival(blocking, timeout_s=1)
    assert await content(real_queue) == before


async def test_an_empty_queue_is_told_after_the_timeout(real_queue: Queue, blocking: Redis) -> None:
    assert not await real_queue.wait_for_arrival(blocking, timeout_s=0.01)
    assert await content(real_queue) == {}


async def test_one_arrival_wakes_all_of_eight_workers(
    real_queue: Queue, server: Server, blocking: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_module, "LONGEST_BLOCK_S", 4.0)
    peeks = [asyncio.create_task(real_queue.wait_for_arrival(blocking, timeout_s=4)) for _ in range(8)]
    await blocked(server, 8)
    await push(real_queue, "a")
    assert await asyncio.gather(*peeks) == [True] * 8
    assert ids(await board(real_queue, "b1")) == ["a"]


def test_a_block_is_shorter_than_the_read_timeout() -> None:
    """Q24."""
    assert LONGEST_BLOCK_S + 1 <= READ_TIMEOUT_S


async def test_a_longer_wait_than_that_is_cut(
    real_queue: Queue, blocking: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_module, "LONGEST_BLOCK_S", 0.01)
    started = time.monotonic()
    assert not await real_queue.wait_for_arrival(blocking, timeout_s=3600)
    assert time.monotonic() - started < 5


async def test_at_maxmemory_the_peek_says_no_and_the_worker_polls(
    real_queue: Queue, server: Server, blocking: Redis
) -> None:
    await submit(real_queue, "a")
    server.fill()
    assert not await real_queue.wait_for_arrival(blocking, timeout_s=1)
    assert await real_queue.redis.llen(real_queue.keys.queue) == 1


async def test_a_killed_connection_is_no_arrival_and_the_next_peek_works(
    real_queue: Queue, server: Server, blocking: Redis
) -> None:
    """B11, Q22, Q25."""
    peek = asyncio.create_task(real_queue.wait_for_arrival(blocking, timeout_s=1))
    await blocked(server)
    server.kill_connections()
    assert not await peek
    await submit_again(real_queue)
    assert await real_queue.wait_for_arrival(blocking, timeout_s=1)


async def submit_again(queue: Queue) -> None:
    """After its connection was killed."""
    queue._patience_s = 5
    await submit(queue, "a")


async def test_a_master_that_becomes_a_replica_does_not_end_the_worker(
    real_queue: Queue, server: Server, blocking: Redis
) -> None:
    """Q23: UNBLOCKED."""
    peek = asyncio.create_task(real_queue.wait_for_arrival(blocking, timeout_s=1))
    await blocked(server)
    with server.client() as client:
        client.execute_command("REPLICAOF", "127.0.0.1", "1")
        assert not await peek
        client.execute_command("REPLICAOF", "NO", "ONE")


async def test_a_server_that_does_not_answer_is_no_arrival(
    real_queue: Queue, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "READ_TIMEOUT_S", 0.1)
    redis = open_redis(server.url)
    await redis.ping()
    server.pause()
    assert not await real_queue.wait_for_arrival(redis, timeout_s=1)
    server.resume()
    await redis.aclose()
