"""With `wait_replicas` a submit and a delivery count only once the replicas have them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count

import pytest
from tests.conftest import get_server
from tests.queue.desk import Desk
from tests.queue.load import queue_at, settled, worker_on
from tests.redis_groups import ask, until
from tests.redis_servers import WANTED, Server, Servers
from tests.waiting import wait_until

from busload import AsyncClient, BusloadUnavailable, Client, NotReplicated, SettingsInvalid
from busload_shared.connection import open_redis
from busload_shared.queue import Queue
from busload_shared.replicated import Copies, ReplicatedQueue, queue_with

QUEUE = "busload:test"
SOON, LONG = 300, 4000
"""Milliseconds a replica is given that will not answer, and one that will."""


@pytest.fixture(params=list(WANTED))
def pair(request: pytest.FixtureRequest, redis_servers: Servers) -> Iterator[tuple[Server, Server]]:
    """A master and its replica."""
    master = get_server(redis_servers, request.param)
    master.config_set("repl-diskless-sync-delay", 0)
    replica = Server(redis_servers.binaries[request.param], request.param)
    try:
        replica.start()
        ask(replica, "REPLICAOF", "127.0.0.1", master.port)
        until(lambda: ask(replica, "INFO", "replication")["master_link_status"] == "up", "the replica has all data")
        yield master, replica
    finally:
        master.config_set("min-replicas-to-write", 0)
        replica.remove()


async def test_a_request_that_no_replica_has_is_said_so_until_one_has_it(pair: tuple[Server, Server]) -> None:
    """Q21: the same id again waits for the first try's write, though it writes nothing itself."""
    master, replica = pair
    async with AsyncClient(master.url, queue=QUEUE, wait_replicas=1, wait_timeout_ms=SOON) as client:
        await client.queue_info()
        replica.pause()
        for _ in range(3):
            with pytest.raises(NotReplicated, match=r"^a: accepted by the master, but only 0 of 1 replicas .* same id"):
                await client.submit(id="a", prompt="p")
        with pytest.raises(NotReplicated, match=r"^b: accepted"):
            await client.generate(id="b", prompt="p")
        assert (await client.queue_info()).waiting == 2
    replica.resume()
    async with AsyncClient(master.url, queue=QUEUE, wait_replicas=1, wait_timeout_ms=LONG) as client:
        assert [(await client.submit(id=name, prompt="p")).state for name in ("a", "b")] == ["waiting"] * 2
        with replica.client() as copy:
            assert copy.llen(QUEUE) == 2
        assert (await client.submit(id="c", prompt="p")).state == "queued"


@pytest.mark.parametrize("used", [True, False])
async def test_a_fresh_connection_waits_for_what_another_one_wrote(pair: tuple[Server, Server], used: bool) -> None:
    """On Redis 8 WAIT alone says yes at once on a connection that wrote nothing."""
    master, replica = pair
    if used:
        async with AsyncClient(master.url, queue=QUEUE, wait_replicas=1, wait_timeout_ms=LONG) as careful:
            assert (await careful.submit(id="a", prompt="p")).state == "queued"
    async with AsyncClient(master.url, queue=QUEUE) as careless:
        await careless.queue_info()
        replica.pause()
        await careless.submit(id="b", prompt="p")
    async with AsyncClient(master.url, queue=QUEUE, wait_replicas=1, wait_timeout_ms=SOON) as client:
        with pytest.raises(NotReplicated):
            await client.submit(id="b", prompt="p")


async def test_only_those_of_the_call_are_told_that_they_are_not_replicated(pair: tuple[Server, Server]) -> None:
    """Who stands in line behind is sent, and told for itself."""
    master, replica = pair
    async with AsyncClient(master.url, queue=QUEUE, wait_replicas=1, wait_timeout_ms=2000) as client:
        replica.pause()
        late = asyncio.create_task(client.submit(id="late", prompt="p"))
        async with queue_at(master.url, QUEUE) as queue:
            await wait_until(lambda: waits(queue, "late"))
        behind = asyncio.create_task(client.submit(id="behind", prompt="p"))
        with pytest.raises(NotReplicated, match=r"^late: "):
            await late
        replica.resume()
        assert (await behind).state == "queued"


async def waits(queue: Queue, name: str) -> bool:
    return (await queue.status([name]))[0].state == "waiting"


async def test_an_answer_that_no_replica_has_is_kept_and_delivered_again(pair: tuple[Server, Server]) -> None:
    master, replica = pair
    settings = {"wait_replicas": 1, "wait_timeout_ms": 1000, "lease_s": 60}
    async with worker_on(master.url, QUEUE, **settings) as worker, AsyncClient(master.url, queue=QUEUE) as client:
        assert (await client.generate(id="before", prompt="p")).status == "succeeded"
        replica.pause()
        assert (await client.generate(id="a", prompt="p")).status == "succeeded"

        async def kept() -> bool:
            lines = worker.lines("results kept, not delivered: accepted by the master, but only 0 of 1")
            return any("delivered again until they have it" in line["message"] for line in lines)

        await wait_until(kept, what="the worker notices")
        replica.resume()
        async with queue_at(master.url, QUEUE) as queue:
            assert (await client.generate(id="b", prompt="p")).status == "succeeded"
            await settled(queue)
            assert (await queue.info()).counters["succeeded"] == 3
            with replica.client() as copy:
                until(lambda: copy.get(queue.keys.result("b")), "the replica has it")
        assert not worker.lines("results refused")


@pytest.mark.parametrize("pair", ["7.0", "8.2"], indirect=True)
async def test_a_master_that_needs_replicas_refuses_while_it_has_too_few(pair: tuple[Server, Server]) -> None:
    """What `min-replicas-to-write` says passes by itself, for client and worker. Redis 6.2 lets scripts through."""
    master, replica = pair
    async with worker_on(master.url, QUEUE) as worker, AsyncClient(master.url, queue=QUEUE, patience_s=0) as client:
        with master.client() as control:
            control.config_set("min-replicas-max-lag", 2)
            control.config_set("min-replicas-to-write", 1)
        replica.pause()
        numbers = count()

        async def refused() -> bool:
            try:
                await client.submit(id=str(next(numbers)), prompt="p")
            except BusloadUnavailable as error:
                return "NOREPLICAS" in str(error)
            return False

        await wait_until(refused, what="the master misses its replica")
        replica.resume()
        async with AsyncClient(master.url, queue=QUEUE, patience_s=30) as patient:
            assert (await patient.generate(id="after", prompt="p", timeout_s=30)).status == "succeeded"
        assert worker.process.poll() is None


async def test_a_full_redis_still_drains(pair: tuple[Server, Server]) -> None:
    """Q19: what is written before WAIT needs no memory."""
    master, _ = pair
    redis = open_redis(master.url)
    queue = queue_with(Copies(1, LONG), redis, QUEUE, patience_s=0)
    await queue.submit([(str(i), b'{"id":"%d","prompt":"%s"}' % (i, b"p" * 4000)) for i in range(20)], limit=100)
    async with Desk(master.url, QUEUE) as desk:
        desk.queue = queue
        master.fill()
        claim = await desk.claim()
        assert claim is not None
        await desk.answer(claim)
        assert None not in await queue.results([str(i) for i in range(20)])
    await redis.aclose()


async def test_a_lost_script_is_loaded_again(pair: tuple[Server, Server]) -> None:
    master, _ = pair
    async with AsyncClient(master.url, queue=QUEUE, wait_replicas=1, wait_timeout_ms=LONG) as client:
        for name in ("a", "b"):
            ask(master, "SCRIPT", "FLUSH")
            assert (await client.submit(id=name, prompt="p")).state == "queued"


async def test_without_replicas_to_wait_for_the_queue_is_the_plain_one() -> None:
    redis = open_redis("redis://127.0.0.1:1/0")
    plain = queue_with(Copies(), redis, QUEUE, patience_s=0)
    assert (type(plain), type(queue_with(Copies(1), redis, QUEUE, patience_s=0))) == (Queue, ReplicatedQueue)
    await redis.aclose()


@pytest.mark.parametrize("wrong", [{"wait_replicas": -1}, {"wait_timeout_ms": 0}, {"wait_timeout_ms": 5000}])
def test_a_wait_longer_than_the_read_timeout_is_refused(wrong: dict[str, int]) -> None:
    """Q24."""
    with pytest.raises(SettingsInvalid, match="1 to 4000 ms"):
        Client("redis://127.0.0.1:1/0", **wrong)
