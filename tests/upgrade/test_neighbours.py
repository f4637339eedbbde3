"""Workers and producers of this version and of the one before share a queue, whichever is replaced first."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from redis.asyncio import Redis
from tests.queue.steps import body
from tests.redis_servers import Server
from tests.upgrade.announced import announced
from tests.upgrade.conftest import OTHER, QUEUE, Producer, Version, Versions
from tests.waiting import wait_until
from tests.worker_process import WorkerProcess

import busload
from busload import AsyncClient
from busload_shared.queue import Queue

WORKERS = 3
Start = Callable[..., WorkerProcess]
Produce = Callable[[Version, str], Producer]
BOTH = pytest.mark.parametrize("version", OTHER)


@BOTH
def test_each_version_understands_what_the_other_writes(versions: Versions, version: Version) -> None:
    own = versions.say(version, "speaking.py", "write")
    others = versions.say(OTHER[version], "speaking.py", "write")
    understood, meant = (versions.say(version, "speaking.py", "read", given=text) for text in (others, own))
    assert understood.count("\n") == 6
    assert understood == meant


@BOTH
async def test_a_producer_of_one_version_is_answered_by_workers_of_the_other(
    server: Server, start: Start, produce: Produce, version: Version
) -> None:
    await start(OTHER[version], server.url, max_batch_size=4, worker_name="w").ready()
    producer = produce(version, server.url)

    async def sixty_heard() -> bool:
        return sum(line.startswith("heard") for line in producer.lines()) >= 60

    await wait_until(sixty_heard, timeout_s=60, what="60 are answered")
    sent, heard = producer.stop()
    assert sent == heard


@BOTH
async def test_what_a_killed_worker_of_one_version_left_is_run_by_the_other(
    any_server: Server, start: Start, version: Version
) -> None:
    settings: dict[str, Any] = {"lease_s": 1, "max_batch_size": 4, "max_wait_ms": 50}
    victim = await start(version, any_server.url, fake_overhead_ms=60_000, **settings).ready()
    async with AsyncClient(any_server.url) as client:
        await client.submit_many({"id": name, "prompt": "p", "max_tokens": 2} for name in "abcd")

        async def all_run() -> bool:
            return {one.state for one in await client.statuses(list("abcd"))} == {"running"}

        await wait_until(all_run, what="the batch runs")
        victim.signal(signal.SIGKILL)
        await start(OTHER[version], any_server.url, **settings).ready()
        found = [await client.result(name, timeout_s=60) for name in "abcd"]
    assert {(one.status, one.attempts) for one in found} == {("succeeded", 2)}


async def test_an_operator_sees_which_workers_are_which(any_server: Server, start: Start) -> None:
    for version in OTHER:
        await start(version, any_server.url, worker_name=version).ready()
    async with AsyncClient(any_server.url) as client:
        told = {one.name: one.busload_version for one in (await client.queue_info()).workers}
    assert told["newer"] == busload.__version__
    assert set(told) == set(OTHER)


async def test_workers_are_replaced_one_by_one_and_back_under_load_and_each_request_is_answered_once(
    any_server: Server, start: Start, produce: Produce
) -> None:
    fleet = [await start("older", any_server.url, **named("older", n)).ready() for n in range(WORKERS)]
    producers = [produce(version, any_server.url) for version in OTHER]
    async with Redis(port=any_server.port) as redis, announced(any_server) as counted:
        for version in ("newer", "older"):
            for n in range(WORKERS):
                await redis.lpush(QUEUE, *(body(f"raw-{version}-{n}-{i}", max_tokens=4) for i in range(20)))
                await answers_more(redis, 60)
                fleet[n].signal(signal.SIGTERM)
                assert await fleet[n].ended(timeout_s=60) == 0, fleet[n].log()
                fleet[n] = await start(version, any_server.url, **named(version, n)).ready()
            await answers_more(redis, 100)
        wanted = {f"raw-{v}-{n}-{i}" for v in OTHER for n in range(WORKERS) for i in range(20)}
        for sent, heard in (producer.stop() for producer in producers):
            assert sent == heard
            wanted |= sent
        await wait_until(lambda: counted.has(len(wanted)), timeout_s=60, what="all are announced")
        queue = Queue(redis, QUEUE)
        info = await queue.info()
        bodies = [json.loads(text or b"{}") for text in await queue.results(sorted(wanted))]
    assert counted.by_id == Counter(wanted)  # one message each
    assert {one["status"] for one in bodies} == {"succeeded"}
    assert {one["worker"].split("-")[0] for one in bodies} == {"older", "newer"}
    assert (info.counters["succeeded"], info.waiting, info.retry, info.inflight, info.dead) == (len(wanted), 0, 0, 0, 0)


def named(version: Version, place: int) -> dict[str, Any]:
    return {"worker_name": f"{version}-{place}", "max_batch_size": 8, "fake_per_token_ms": 5, "lease_s": 5}


async def answers_more(redis: Redis, many: int) -> None:
    """Wait until so many more were answered."""

    async def answered() -> int:
        return int(await redis.hget("{" + QUEUE + "}:stats", "succeeded") or 0)

    before = await answered()

    async def enough() -> bool:
        return await answered() >= before + many

    await wait_until(enough, timeout_s=60, what=f"{many} more are answered")
