"""A queue on a Redis Cluster: it lives on one node, and client and worker follow it wherever it goes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from tests.conftest import missing
from tests.queue.load import Load, queue_at, settled, worker_on
from tests.redis_groups import Cluster, Migration, until
from tests.redis_servers import WANTED, Server, Servers

from busload import AsyncClient, BusloadUnavailable
from busload_shared.connection import open_redis
from busload_shared.queue import Queue


def start_cluster(servers: Servers, version: str) -> Cluster:
    if version not in servers:
        missing(f"redis-server {version}", WANTED[version])
    cluster = Cluster(servers.binaries[version], version)
    try:
        cluster.start()
    except BaseException:
        cluster.remove()
        raise
    return cluster


@pytest.fixture(scope="module", params=list(WANTED))
def cluster(request: pytest.FixtureRequest, redis_servers: Servers) -> Iterator[Cluster]:
    cluster = start_cluster(redis_servers, request.param)
    yield cluster
    cluster.remove()


def keys_on(server: Server, queue: str) -> int:
    with server.client() as client:
        return sum(queue.encode() in key for key in client.scan_iter(count=1000))


async def test_queues_on_all_nodes_are_served_and_each_is_on_one_node_only(cluster: Cluster) -> None:
    """Q16, Q45."""
    names = [cluster.queue_on(server) for server in cluster.masters]
    assert len(set(names)) == 3
    await asyncio.gather(*(serve(cluster, name) for name in names))
    for name, home in zip(names, cluster.masters, strict=True):
        assert [keys_on(server, name) > 0 for server in cluster.masters] == [
            server is home for server in cluster.masters
        ]


async def serve(cluster: Cluster, name: str) -> None:
    """All that a client and a worker do with a queue."""
    async with worker_on(cluster.url, name, max_wait_ms=100) as worker, AsyncClient(cluster.url, queue=name) as client:
        results = await asyncio.gather(*(client.generate(prompt="p", max_tokens=2) for _ in range(20)))
        assert [f":{result.id}:" in result.text for result in results] == [True] * 20
        assert await client.cancel("never") == "unknown"
        assert (await client.generate(id="never", prompt="p")).status == "cancelled"
        async with AsyncClient(cluster.url, queue=name) as other:  # told on the done channel
            foreign = asyncio.create_task(other.result("raw", 20))
            async with queue_at(cluster.url, name) as queue:
                await queue.redis.lpush(name, '{"id":"raw","prompt":"pushed raw"}')
                assert ":raw:" in (await foreign).text
        assert (await client.status("raw")).state == "answered"
        assert len((await client.queue_info()).workers) == 1
        assert not worker.lines("cannot claim")


async def test_one_seed_is_enough_whichever_it_is(cluster: Cluster) -> None:
    for seed in cluster.masters:
        name = cluster.queue_on(cluster.masters[0])
        async with AsyncClient(f"redis+cluster://127.0.0.1:{seed.port}", queue=name) as client:
            assert (await client.status("nobody")).state == "unknown"


async def test_a_plain_url_to_the_wrong_node_says_what_to_write(cluster: Cluster) -> None:
    wrong, right = cluster.masters[:2]
    name = cluster.queue_on(right)
    redis = open_redis(wrong.url)
    with pytest.raises(BusloadUnavailable, match=r"redis\+cluster://"):
        await Queue(redis, name, patience_s=0).info()
    await redis.aclose()


async def test_a_slot_moves_under_load_and_nothing_is_lost_or_done_twice(cluster: Cluster) -> None:
    """Q16."""
    source, target, bystander = cluster.masters
    name = cluster.queue_on(source)
    migration = Migration(name, source, target, [bystander])
    async with worker_on(cluster.url, name), AsyncClient(cluster.url, queue=name, patience_s=20) as client:
        async with Load(client) as load:
            await load.goes_on()
            migration.begin()
            moving = await asyncio.to_thread(migration.move_all)
            migration.end()
            migration.move_all()  # what came in between the last look and the end
            assert moving > 10
            await load.goes_on()
            results = await load.end()
        async with queue_at(cluster.url, name) as queue:
            await settled(queue)
            info = await queue.info()
        assert info.counters["succeeded"] == len(results)
        assert info.dead == 0
        assert load.errors == []
    assert (keys_on(source, name), keys_on(target, name) > len(results)) == (0, True)
    assert cluster.owner(name) is target


async def test_a_node_that_dies_is_replaced_by_its_replica(redis_servers: Servers) -> None:
    version = redis_servers.first()
    assert version is not None
    cluster = start_cluster(redis_servers, version)
    try:
        home = cluster.masters[1]
        name = cluster.queue_on(home)
        replica = cluster.add_replica(home)
        async with worker_on(cluster.url, name) as worker, AsyncClient(cluster.url, queue=name) as client:
            async with AsyncClient(cluster.url, queue=name, wait_replicas=1, wait_timeout_ms=4000) as careful:
                assert (await careful.submit(id="replicated", prompt="p")).state == "queued"
            async with Load(client) as load:
                await load.goes_on()
                home.stop()
                until(lambda: cluster.owner(name) is replica, "the replica took over")
                await load.goes_on()
                await load.end()
                assert worker.process.poll() is None
            async with queue_at(cluster.url, name) as queue:
                await settled(queue)
                stored = await queue.results(list(load.results))
        assert None not in stored
    finally:
        cluster.remove()
