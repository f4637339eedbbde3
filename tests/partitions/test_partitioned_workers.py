"""Clients and real worker processes on a queue of four partitions, on one Redis."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter

import pytest
from tests.queue.load import Load, settled, worker_on
from tests.waiting import wait_until

from busload import AsyncClient, Client, RequestUnknown, SettingsInvalid
from busload_shared.opening import open_queue
from busload_shared.queue import Queue

from .conftest import COUNT
from .homes import ids_in, one_in_each

NAME = "busload:parted"


@pytest.fixture
async def queue(any_redis_url: str):  # type: ignore[no-untyped-def]
    queue = open_queue(any_redis_url, NAME, partitions=COUNT, patience_s=10)
    yield queue
    await queue.close()


async def test_all_that_a_client_asks_is_answered(any_redis_url: str, queue: Queue) -> None:
    async with (
        worker_on(any_redis_url, NAME, partitions=COUNT) as worker,
        AsyncClient(any_redis_url, queue=NAME, partitions=COUNT) as client,
    ):
        results = await asyncio.gather(*(client.generate(prompt="p", max_tokens=2) for _ in range(100)))
        assert {result.status for result in results} == {"succeeded"}
        assert {result.batch.id[-1] for result in results if result.batch} == {"0", "1", "2", "3"}
        found = [result async for result in client.as_completed([result.id for result in results], timeout_s=10)]
        assert len(found) == 100
        assert [one.state for one in await client.statuses([results[0].id, "never"])] == ["answered", "unknown"]
        assert {result.status for result in await client.results([r.id for r in results]) if result} == {"succeeded"}
        for name in one_in_each(COUNT, prefix="cancelled"):
            assert await client.cancel(name) == "unknown"
            assert (await client.generate(id=name, prompt="p")).status == "cancelled"
        with pytest.raises(RequestUnknown):
            await client.result("never")
        info = await client.queue_info()
        assert (len(info.workers), info.workers[0].partitions) == (1, COUNT)
        assert info.counters == {"succeeded": 100, "cancelled": COUNT}
        worker.signal(signal.SIGTERM)
        assert await worker.ended() == 0
        assert (await client.queue_info()).workers == ()
    await settled(queue)


async def test_raw_requests_of_every_partition_are_answered_and_their_watchers_told(
    any_redis_url: str, queue: Queue
) -> None:
    async with (
        worker_on(any_redis_url, NAME, partitions=COUNT),
        AsyncClient(any_redis_url, queue=NAME, partitions=COUNT) as client,
    ):
        names = one_in_each(COUNT, prefix="raw")
        told = [asyncio.create_task(client.result(name, timeout_s=20)) for name in names]
        for part, name in zip(queue.parts, names, strict=True):
            await queue.redis.lpush(part.keys.queue, f'{{"id":"{name}","prompt":"pushed raw"}}')
        assert [f":{name}:" in (await result).text for name, result in zip(names, told, strict=True)] == [True] * COUNT


async def test_the_synchronous_client_knows_partitions(any_redis_url: str) -> None:
    async with worker_on(any_redis_url, NAME, partitions=COUNT):

        def ask() -> Counter[str]:
            with Client(any_redis_url, queue=NAME, partitions=COUNT) as client:
                sent = client.submit_many({"prompt": "p", "max_tokens": 2} for _ in range(300))
                return Counter(result.status for result in client.as_completed([one.id for one in sent], 20))

        assert await asyncio.to_thread(ask) == {"succeeded": 300}


async def test_deadlines_pass_in_every_partition_while_the_worker_is_busy(any_redis_url: str) -> None:
    async with (
        worker_on(any_redis_url, NAME, partitions=COUNT, fake_per_token_ms=10, max_batch_size=1) as worker,
        AsyncClient(any_redis_url, queue=NAME, partitions=COUNT) as client,
    ):
        long = await client.submit(prompt="p", max_tokens=400)
        await wait_until(lambda: _is(client, long.id, "running"), what="the worker is busy")
        names = one_in_each(COUNT, prefix="late")
        late = await asyncio.gather(*(client.generate(id=name, prompt="p", ttl_s=0.3) for name in names))
        assert {result.status for result in late} == {"expired"}
        assert (await client.status(long.id)).state == "running", "nobody waited for it"
        await client.cancel(long.id)
        assert (await client.result(long.id, 20)).status == "cancelled"
        assert not worker.lines("Redis is away")


async def _is(client: AsyncClient, name: str, state: str) -> bool:
    return (await client.status(name)).state == state


async def test_dead_letters_of_any_partition_are_redriven(any_redis_url: str, queue: Queue) -> None:
    async with worker_on(any_redis_url, NAME, partitions=COUNT):
        names = one_in_each(COUNT, prefix="bad")
        for part, name in zip(queue.parts, names, strict=True):
            await queue.redis.lpush(part.keys.queue, f'{{"id":"{name}","max_tokens":-1,"prompt":"p"}}')

        async def all_dead() -> bool:
            return {letter.id for letter in await queue.dead_letters()} == set(names)

        await wait_until(all_dead, what="each has left a letter")
        for letter in await queue.dead_letters():
            assert await queue.redrive(letter)
        await wait_until(all_dead, what="each was run again, and is no better")
        assert (await queue.info()).dead == COUNT


async def test_a_worker_killed_in_the_middle_of_a_batch_loses_nothing(any_redis_url: str, queue: Queue) -> None:
    async with (
        worker_on(any_redis_url, NAME, partitions=COUNT, fake_per_token_ms=20) as first,
        worker_on(any_redis_url, NAME, partitions=COUNT) as second,
        AsyncClient(any_redis_url, queue=NAME, partitions=COUNT) as client,
        Load(client) as load,
    ):
        await load.goes_on()
        await wait_until(lambda: _runs(queue, first.process.pid), what="the first worker runs a batch")
        first.process.kill()
        await load.goes_on(more=60)
        results = await load.end()
        await settled(queue)
        info = await queue.info()
        assert info.counters["succeeded"] == len(results), "each once"
        assert info.dead == 0
        assert second.lines("took back a batch")
        assert load.errors == []


async def _runs(queue: Queue, pid: int) -> bool:
    return any(batch.worker.endswith(f"-{pid}") for batch in (await queue.running()).batches)


async def test_a_client_that_counts_more_than_the_workers_serve_is_told_so(any_redis_url: str) -> None:
    async with worker_on(any_redis_url, NAME, partitions=2):
        async with AsyncClient(any_redis_url, queue=NAME, partitions=COUNT) as client:
            served, unserved, *_ = ids_in(1, COUNT, 1) + ids_in(3, COUNT, 1)
            assert (await client.generate(id=served, prompt="p")).status == "succeeded"
            with pytest.raises(SettingsInvalid, match="partitions=4: the workers of busload:parted serve 2"):
                await client.generate(id=unserved, prompt="p", timeout_s=10)
            assert (await client.queue_info()).waiting == 0, "nothing waits for ever"
        async with (
            worker_on(any_redis_url, NAME, partitions=COUNT),
            AsyncClient(any_redis_url, queue=NAME, partitions=COUNT) as client,
        ):
            names = [name for number in range(COUNT) for name in ids_in(number, COUNT, 5)]
            results = await asyncio.gather(*(client.generate(id=name, prompt="p") for name in names))
            assert {result.status for result in results} == {"succeeded"}, "one worker serves them all"


@pytest.mark.parametrize("fewer", [1, 3])
async def test_a_producer_that_counts_fewer_is_served_and_the_worker_tells(
    any_redis_url: str, queue: Queue, fewer: int
) -> None:
    """So the workers are given a new number first, and then the producers."""
    async with worker_on(any_redis_url, NAME, partitions=COUNT, fake_per_token_ms=5) as worker:
        async with AsyncClient(any_redis_url, queue=NAME, partitions=fewer) as client:
            results = await asyncio.gather(*(client.generate(prompt="p", max_tokens=2) for _ in range(40)))
            assert {result.status for result in results} == {"succeeded"}
            long = ids_in(fewer - 1, fewer, 6, prefix="long")
            await client.submit_many({"id": name, "prompt": "p", "max_tokens": 2000} for name in long)
            await wait_until(lambda: _is(client, long[-1], "running"), what="they run")
            assert {await client.cancel(name) for name in long} == {"running"}
            ended = await asyncio.gather(*(client.result(name, 10) for name in long))
            assert {result.status for result in ended} == {"cancelled"}, "its mark is found where its batch is"
        assert [line for line in worker.lines("") if "a producer counts other than 4" in line["message"]]
    await settled(queue)


async def test_rows_are_picked_by_length_and_weight_within_a_partition(any_redis_url: str, queue: Queue) -> None:
    settings = {"partitions": COUNT, "order": "length", "max_batch_tokens": 100, "max_wait_ms": 1, "max_batch_size": 8}
    async with AsyncClient(any_redis_url, queue=NAME, partitions=COUNT) as client:
        names = [name for number in range(COUNT) for name in ids_in(number, COUNT, 12)]
        for at, name in enumerate(names):
            await client.submit(id=name, prompt="p", max_tokens=40 if at % 2 else 4, ignore_eos=True)
        async with worker_on(any_redis_url, NAME, **settings):
            results = [result async for result in client.as_completed(names, timeout_s=30)]
    heavy = [result.batch for result in results if result.batch and result.batch.tokens > 100]
    assert (len(results), heavy) == (48, [])
    await settled(queue)


async def test_a_learned_wait_goes_with_partitions(any_redis_url: str, queue: Queue) -> None:
    async with (
        worker_on(any_redis_url, NAME, partitions=COUNT, max_wait_ms="auto", fake_per_token_ms=1),
        AsyncClient(any_redis_url, queue=NAME, partitions=COUNT) as client,
        Load(client) as load,
    ):
        await load.goes_on(more=200)
        await load.end()
    await settled(queue)
