"""The connections on which scripts are called: kept between calls, never used when something is wrong with them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from redis.exceptions import ConnectionError
from tests.redis_servers import Server

from busload_shared.connection import open_redis
from busload_shared.queue import Queue


@pytest.fixture
async def fresh(server: Server) -> AsyncIterator[Queue]:
    redis = open_redis(server.url)
    yield Queue(redis, "busload:test", patience_s=2)
    await redis.aclose()


async def connections(queue: Queue) -> int:
    """How many this test's client has now, the asking one left out."""
    name = "busload-test-lines"
    return sum(client.get("name") == name for client in await queue.redis.client_list())


async def named(queue: Queue) -> None:
    queue.redis.connection_pool.connection_kwargs["client_name"] = "busload-test-lines"


async def test_one_call_after_another_uses_one_connection(fresh: Queue) -> None:
    await named(fresh)
    for _ in range(5):
        await fresh.stamp()
    assert await connections(fresh) == 2, "one for scripts, and the one that asks"


async def test_as_many_are_open_as_calls_ran_at_once(fresh: Queue) -> None:
    await named(fresh)
    await fresh.stamp()  # loads the scripts
    await asyncio.gather(*[fresh.stamp() for _ in range(6)])
    await asyncio.gather(*[fresh.stamp() for _ in range(6)])
    assert await connections(fresh) <= 7


async def test_they_are_closed_with_the_client(any_queue: Queue, any_server: Server) -> None:
    redis = open_redis(any_server.url)
    queue = Queue(redis, "busload:test", patience_s=2)
    await named(queue)
    await asyncio.gather(*[queue.stamp() for _ in range(3)])
    await redis.aclose()

    for _ in range(200):
        if not await connections(any_queue):
            break
        await asyncio.sleep(0.01)
    assert await connections(any_queue) == 0


async def test_one_that_the_server_closed_is_replaced_at_the_next_call(fresh: Queue) -> None:
    await named(fresh)
    await fresh.stamp()
    for client in await fresh.redis.client_list():
        if client["name"] == "busload-test-lines" and client["cmd"] != "client|list":
            await fresh.redis.client_kill_filter(_id=client["id"], skipme=True)
    assert await fresh.stamp()


async def test_a_call_that_was_cancelled_leaves_no_reply_for_the_next(fresh: Queue) -> None:
    await fresh.submit([("a", b'{"id":"a","prompt":"p"}')], limit=10)
    for _ in range(20):
        call = asyncio.create_task(fresh.status(["a"]))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait([call])
        assert (await fresh.status(["a", "b"]))[0].state == "waiting"
        assert await fresh.stamp() is True


async def test_a_reply_that_comes_unasked_ends_the_connection_and_is_nobody_s(fresh: Queue) -> None:
    await fresh.stamp()
    (line,) = fresh._scripts["stamp"]._lines._idle
    await line.send_command("ECHO", "late")
    await asyncio.sleep(0.05)

    assert [found.state for found in await fresh.status(["nobody"])] == ["unknown"]
    assert line not in fresh._scripts["stamp"]._lines._idle or line.is_quiet


async def test_an_error_of_the_server_keeps_the_connection(fresh: Queue) -> None:
    await fresh.stamp()
    (line,) = fresh._scripts["stamp"]._lines._idle
    await fresh.redis.set("busload:test", "junk")
    with pytest.raises(Exception, match="is a string, not a list"):
        await fresh.submit([("a", b"{}")], limit=1)
    await fresh.redis.delete("busload:test")
    assert fresh._scripts["stamp"]._lines._idle == [line]


async def test_a_server_that_is_away_is_told(fresh: Queue) -> None:
    lines = fresh._scripts["stamp"]._lines
    fresh.redis.connection_pool.connection_kwargs["port"] = 1
    with pytest.raises(ConnectionError):
        await lines.evalsha("0" * 40, 0)
