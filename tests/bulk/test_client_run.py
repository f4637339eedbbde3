"""`client.run`: outcomes as they come, in any order; a bad one stops nothing, a full queue is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from tests.waiting import wait_until
from tests.worker_process import WorkerProcess

from busload import AsyncClient, BusloadUnavailable, Client, Outcome, RequestInvalid
from busload_shared.errors import SettingsInvalid


def requests(count: int) -> Iterator[dict[str, Any]]:
    for i in range(count):
        yield {"prompt": 7} if i == 3 else {"id": f"r{i}", "prompt": f"p{i}", "max_tokens": 2}


def check(outcomes: list[Outcome], count: int) -> None:
    assert sorted(outcome.position for outcome in outcomes) == list(range(count))
    for outcome in outcomes:
        assert outcome.succeeded == (outcome.position != 3)
        if outcome.succeeded:
            assert outcome.result is not None
            assert outcome.id == outcome.result.id == f"r{outcome.position}"
            assert outcome.text.startswith("echo:")
        else:
            assert isinstance(outcome.error, RequestInvalid)
            assert outcome.item == {"prompt": 7}


@pytest.mark.usefixtures("worker")
async def test_an_iterable_and_an_async_iterable_are_run(any_redis_url: str) -> None:
    async def some() -> AsyncIterator[dict[str, Any]]:
        for one in requests(30):
            await asyncio.sleep(0)
            yield one

    async with AsyncClient(any_redis_url) as client:
        check([outcome async for outcome in client.run(requests(60), in_flight=7)], 60)
        check([outcome async for outcome in client.run(some(), in_flight=1000)], 30)
        assert [outcome async for outcome in client.run([])] == []


@pytest.mark.usefixtures("worker")
async def test_the_synchronous_client_does_the_same(any_redis_url: str) -> None:
    def all_of_it() -> list[Outcome]:
        with Client(any_redis_url) as client:
            assert list(client.run([])) == []
            return list(client.run(requests(60), in_flight=9))

    check(await asyncio.to_thread(all_of_it), 60)


@pytest.mark.usefixtures("worker")
async def test_a_full_queue_is_waited_for(any_redis_url: str) -> None:
    async with AsyncClient(any_redis_url, max_queue_length=5) as client:
        check([outcome async for outcome in client.run(requests(60), in_flight=40)], 60)


async def test_an_endless_iterable_is_read_no_further_than_there_is_room(any_redis_url: str) -> None:
    """No worker is up: after eight nothing more can be read."""
    read = 0

    def endless() -> Iterator[dict[str, Any]]:
        nonlocal read
        while True:
            read += 1
            yield {"prompt": "x"}

    async with AsyncClient(any_redis_url) as client:
        outcomes = client.run(endless(), in_flight=8)
        waiting = asyncio.ensure_future(anext(outcomes))

        async def full() -> bool:
            return (await client.queue_info()).waiting >= 8

        await wait_until(full, what="eight requests wait")
        assert (await client.queue_info()).waiting == 8
        waiting.cancel()
        await asyncio.wait([waiting])
    assert read <= 9


async def test_an_iterable_that_raises_ends_the_iteration_with_its_error(any_redis_url: str) -> None:
    def broken() -> Iterator[dict[str, Any]]:
        yield {"prompt": 1}
        raise LookupError("no more")

    async with AsyncClient(any_redis_url) as client:
        with pytest.raises(LookupError):
            [outcome async for outcome in client.run(broken())]
        with pytest.raises(SettingsInvalid, match="in_flight=0"):
            [outcome async for outcome in client.run([], in_flight=0)]


async def test_a_redis_that_stays_away_ends_the_iteration() -> None:
    async with AsyncClient("redis://127.0.0.1:1/0", patience_s=0.1) as client:
        with pytest.raises(BusloadUnavailable):
            [outcome async for outcome in client.run(requests(3))]


async def test_what_redis_lost_is_submitted_again(worker: WorkerProcess, any_redis_url: str) -> None:
    """The result is deleted while nobody listens: its id is known, its result is not."""
    async with AsyncClient(any_redis_url) as client:
        first = await client.generate(id="r0", prompt="p0", max_tokens=2)
        await client._wires().queue.redis.delete(client._wires().queue.keys.result("r0"))
        (outcome,) = [outcome async for outcome in client.run(requests(1))]
        assert outcome.result is not None
        assert outcome.result.batch != first.batch
