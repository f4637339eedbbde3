"""A queue of eight partitions on a Redis Cluster of three masters: its load is spread, and a node may go."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from redis.exceptions import RedisError
from tests.conftest import missing
from tests.queue.load import Load, settled, worker_on
from tests.redis_groups import Cluster, until
from tests.redis_servers import Server, Servers
from tests.waiting import wait_until

from busload import AsyncClient
from busload_shared.opening import open_queue
from busload_shared.partitions.homes import partition_names
from busload_shared.queue import Queue

from .homes import one_in_each

NAME, COUNT = "busload:default", 8

SETTINGS = {"cluster-require-full-coverage": "no", "appendonly": "yes", "appendfsync": "always"}
"""What docs/scaling.md asks for: the other nodes go on, and one that is killed comes back with what it had."""


@pytest.fixture
def cluster(redis_servers: Servers) -> Iterator[Cluster]:
    version = redis_servers.first()
    if version is None:
        missing("redis-server", "apt-get install redis-server")
    cluster = Cluster(redis_servers.binaries[version], version)
    for server in cluster.masters:
        server._more |= SETTINGS
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.remove()


def homes(cluster: Cluster) -> dict[str, Server]:
    """Each partition's list, and the master that has it."""
    return {name: cluster.owner(name) for name in partition_names(NAME, COUNT)}


async def answered_once(queue: Queue, load: Load, *, and_others: int = 0) -> None:
    await settled(queue)
    info = await queue.info()
    assert info.counters["succeeded"] == len(load.results) + and_others
    assert info.dead == 0
    assert None not in await queue.results(list(load.results))


async def test_the_partitions_are_on_all_masters_and_all_are_served(cluster: Cluster) -> None:
    assert set(homes(cluster).values()) == set(cluster.masters)
    queue = open_queue(cluster.url, NAME, partitions=COUNT, patience_s=10)
    async with (
        worker_on(cluster.url, NAME, partitions=COUNT) as worker,
        worker_on(cluster.url, NAME, partitions=COUNT),
        AsyncClient(cluster.url, queue=NAME, partitions=COUNT) as client,
    ):
        async with Load(client) as load:
            await load.goes_on(more=100)
            await load.end()
        assert load.errors == []
        names = one_in_each(COUNT, prefix="raw")
        told = [asyncio.create_task(client.result(name, timeout_s=20)) for name in names]
        for part, name in zip(queue.parts, names, strict=True):
            await part.redis.lpush(part.keys.queue, f'{{"id":"{name}","prompt":"pushed raw"}}')
        assert [f":{name}:" in (await result).text for name, result in zip(names, told, strict=True)] == [True] * COUNT
        for name in one_in_each(COUNT, prefix="c"):
            assert await client.cancel(name) == "unknown"
            assert (await client.generate(id=name, prompt="p")).status == "cancelled"
        late = await asyncio.gather(
            *(client.generate(id=name, prompt="p", ttl_s=0.001) for name in one_in_each(COUNT, prefix="late"))
        )
        assert {result.status for result in late} <= {"expired", "succeeded"}
        bad = one_in_each(COUNT, prefix="bad")
        for part, name in zip(queue.parts, bad, strict=True):
            await part.redis.lpush(part.keys.queue, f'{{"id":"{name}","prompt":"p","max_tokens":-1}}')
        for name in bad:
            assert (await client.result(name, 20)).error is not None
        assert {letter.id for letter in await queue.dead_letters()} == set(bad)
        for letter in await queue.dead_letters():
            assert await queue.redrive(letter)
        assert len((await client.queue_info()).workers) == 2
        assert not worker.lines("cannot claim")
    await queue.close()


async def test_a_worker_killed_in_the_middle_of_a_batch_loses_nothing(cluster: Cluster) -> None:
    queue = open_queue(cluster.url, NAME, partitions=COUNT, patience_s=10)
    async with (
        worker_on(cluster.url, NAME, partitions=COUNT, fake_per_token_ms=20) as first,
        worker_on(cluster.url, NAME, partitions=COUNT),
        AsyncClient(cluster.url, queue=NAME, partitions=COUNT) as client,
        Load(client) as load,
    ):
        await load.goes_on()

        async def in_a_batch() -> bool:
            return any(batch.worker.endswith(f"-{first.process.pid}") for batch in (await queue.running()).batches)

        await wait_until(in_a_batch, what="the first worker runs a batch")
        first.process.kill()
        await load.goes_on(more=60)
        await load.end()
        assert load.errors == []
        await answered_once(queue, load)
    await queue.close()


@pytest.mark.parametrize("how", ["killed", "frozen"])
async def test_while_a_master_is_gone_the_other_partitions_go_on_and_in_the_end_all_is_answered_once(
    cluster: Cluster, how: str
) -> None:
    """It has no replica."""
    gone = cluster.masters[1]
    lost = [number for number, server in enumerate(homes(cluster).values()) if server is gone]
    there = [number for number in range(COUNT) if number not in lost]
    assert lost
    assert there
    queue = open_queue(cluster.url, NAME, partitions=COUNT, patience_s=10)
    async with (
        worker_on(cluster.url, NAME, partitions=COUNT, fake_per_token_ms=20) as worker,
        worker_on(cluster.url, NAME, partitions=COUNT, fake_per_token_ms=20),
        AsyncClient(cluster.url, queue=NAME, partitions=COUNT) as client,
        Load(client, lanes=24) as load,
    ):
        await load.goes_on(more=60)
        (gone.stop if how == "killed" else gone.pause)()
        others = await others_go_on(client, there)
        (gone.start if how == "killed" else gone.resume)()
        until(lambda: all(agrees(server) for server in cluster.masters), "the cluster is whole again")
        await load.goes_on(more=120)
        await load.end()
        assert worker.process.poll() is None
        await answered_once(queue, load, and_others=others)
    await queue.close()


async def others_go_on(client: AsyncClient, partitions: list[int]) -> int:
    """Ask again and again, in partitions whose server is there. Returns how many were asked."""
    for number in range(8):
        names = [one_in_each(COUNT, prefix=f"meanwhile{number}-")[partition] for partition in partitions]
        results = await asyncio.gather(
            *(client.generate(id=name, prompt="p", max_tokens=4, timeout_s=30) for name in names)
        )
        assert {result.status for result in results} == {"succeeded"}
    return 8 * len(partitions)


def agrees(server: Server) -> bool:
    try:
        with server.client() as client:
            return bool(client.execute_command("CLUSTER INFO")["cluster_slots_ok"] == "16384")
    except RedisError:
        return False
