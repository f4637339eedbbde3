"""Each role of ops/redis does all of its work, and is refused nothing on the way."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable

import pytest
from tests.queue.steps import answer, board, body, ids, letter, result, submit
from tests.trust.guarded import QUEUE, Guarded
from tests.waiting import wait_until
from tests.worker_process import WorkerProcess

from busload import AsyncClient, BusloadUnavailable, Client, QueueFull, Request
from busload_shared import scripts
from busload_shared.queue import Queue

Start = Callable[..., WorkerProcess]
QueueAs = Callable[..., Queue]

HIDDEN_FROM_PRODUCERS = {
    f"producer: {what}" for what in ("lindex", "zrange", "{busload:default}:ranked", "hvals", "hgetall")
}
"""queue_info looks for ages, which stand in the elements, and goes on without them; on 6.2 also without counters."""


async def test_a_producer_and_a_worker_do_all_their_work(guarded: Guarded, start_worker: Start) -> None:
    await start_worker(guarded.url_for("worker"), max_batch_size=4, result_ttl_s=60).ready()
    async with AsyncClient(guarded.url_for("producer"), patience_s=20) as client:
        assert (await client.generate(prompt="p", max_tokens=2, timeout_s=30)).status == "succeeded"
        sent = await client.submit_many(Request(id=f"r{i}", prompt="p", max_tokens=2) for i in range(20))
        found = [one async for one in client.as_completed([one.id for one in sent], timeout_s=30)]
        assert {one.status for one in found} == {"succeeded"}
        special = [{"id": "vip", "prompt": "p", "priority": 5}, {"id": "late", "prompt": "p", "ttl_s": 30.0}]
        await client.submit_many(special)
        assert (await client.result("vip", timeout_s=30)).status == "succeeded"
        assert (await client.result("late", timeout_s=30)).status == "succeeded"
        assert [one is not None for one in await client.results(["r0", "nobody"])] == [True, False]
        states = await client.statuses(["r0", "nobody"])
        assert [one.state for one in states] == ["answered", "unknown"]
        assert await client.cancel("r0") == "answered"
        assert await client.cancel("to-come") == "unknown"
        assert (await client.generate(id="to-come", prompt="p", timeout_s=30)).status == "cancelled"
    assert guarded.refusals() <= HIDDEN_FROM_PRODUCERS


async def test_a_producer_cancels_what_waits_and_what_runs(guarded: Guarded, start_worker: Start) -> None:
    await start_worker(guarded.url_for("worker"), max_batch_size=2, fake_overhead_ms=60_000).ready()
    async with AsyncClient(guarded.url_for("producer"), patience_s=20) as client:
        await client.submit(id="runs", prompt="p")

        async def runs() -> bool:
            return (await client.status("runs")).state == "running"

        await wait_until(runs, what="the first runs")
        await client.submit(id="waits", prompt="p")  # half a batch: not claimed ahead
        waiting = asyncio.create_task(client.result("waits"))
        told = await client.cancel("waits")
        assert (told, (await waiting).status) == ("cancelled", "cancelled")
        assert await client.cancel("runs") == "running"
        assert (await client.result("runs", timeout_s=30)).status == "cancelled"
    assert guarded.refusals() == set()


async def test_a_producer_is_told_when_the_queue_is_full_and_how_long_to_wait(
    guarded: Guarded, queue_as: QueueAs
) -> None:
    await queue_as("worker").audit(grace_ms=1)  # a worker was here once
    async with AsyncClient(guarded.url_for("producer"), max_queue_length=1, patience_s=20) as client:
        await client.submit(prompt="p")
        with pytest.raises(QueueFull, match="1 requests wait and the limit is 1"):
            await client.submit(prompt="p")
        info = await client.queue_info()
    assert (info.waiting, info.oldest_waiting_ms) == (1, None)
    assert guarded.refusals() <= HIDDEN_FROM_PRODUCERS


def test_synchronous_code_does_it_too(guarded: Guarded, start_worker: Start) -> None:
    asyncio.run(start_worker(guarded.url_for("worker")).ready())  # type: ignore[arg-type]
    with Client(guarded.url_for("producer"), patience_s=20) as client:
        assert client.generate(prompt="p", max_tokens=2, timeout_s=30).status == "succeeded"
    assert guarded.refusals() == set()


async def test_any_language_enqueues_waits_and_cancels_with_plain_commands(
    guarded: Guarded, start_worker: Start
) -> None:
    await start_worker(guarded.url_for("worker")).ready()
    with guarded.as_user("producer") as redis, guarded.as_user("producer") as ear:
        heard = ear.pubsub()
        heard.subscribe("{busload:default}:done:plain")
        assert heard.get_message(timeout=20)["type"] == "subscribe"
        redis.lpush(QUEUE, json.dumps({"id": "plain", "prompt": "p", "max_tokens": 2}))
        assert heard.get_message(timeout=20)["data"] == b"succeeded"
        assert b"succeeded" in redis.get("{busload:default}:result:plain")
        redis.mget("{busload:default}:result:plain", "{busload:default}:state:plain")
        redis.set("{busload:default}:cancel:later", 1, ex=60)
        heard.close()
    assert guarded.refusals() == set()


async def test_an_analyst_reads_results_and_hears_of_them(guarded: Guarded, start_worker: Start) -> None:
    await start_worker(guarded.url_for("worker")).ready()
    with guarded.as_user("analyst") as redis:
        heard = redis.pubsub()
        heard.psubscribe("{busload:default}:done:*")
        assert heard.get_message(timeout=20)["type"] == "psubscribe"
        async with AsyncClient(guarded.url_for("producer"), patience_s=20) as client:
            await client.submit(id="seen", prompt="p", max_tokens=2)
        assert heard.get_message(timeout=20)["channel"] == b"{busload:default}:done:seen"
        heard.close()
    async with AsyncClient(guarded.url_for("analyst"), patience_s=20) as client:
        (seen,) = await client.results(["seen"])
        assert seen is not None
        assert seen.status == "succeeded"
    assert guarded.refusals() == set()


async def test_a_worker_outlives_the_engine_its_neighbours_and_bad_requests(
    guarded: Guarded, start_worker: Start
) -> None:
    url = guarded.url_for("worker")
    victim = await start_worker(url, fake_overhead_ms=60_000, lease_s=1, max_wait_ms=50, engine_host="inline").ready()
    with guarded.as_user("producer") as redis:
        redis.lpush(QUEUE, *[body(name, max_tokens=2) for name in ("a", "b")])
    async with AsyncClient(guarded.url_for("producer"), patience_s=20) as client:

        async def runs() -> bool:
            return (await client.status("a")).state == "running"

        await wait_until(runs, what="a runs")
        victim.signal(signal.SIGKILL)
        await start_worker(url, lease_s=1, engine_host="process").ready()
        assert {(await client.result(name, timeout_s=60)).attempts for name in ("a", "b")} == {2}
        with guarded.as_user("producer") as redis:
            redis.lpush(QUEUE, b"no JSON", body("typo", max_token=2), body("bad", metadata={"fake": "crash"}))
        assert (await client.result("typo", timeout_s=60)).error is not None
        poison = await client.result("bad", timeout_s=60)
        assert poison.error is not None
        assert poison.error.code == "poison"
    with guarded.client() as redis:
        assert redis.llen("{busload:default}:dead") == 3
    assert guarded.refusals() == set()


async def every_method_of_a_worker(queue: Queue, producer: Queue) -> None:
    """All that a worker may ask of its queue, in no sensible order."""
    await submit(producer, *"abcdef")
    await producer.redis.lpush(QUEUE, body("raw", ttl_s=0.001), body("ranked", priority=3))
    await queue.stamp()
    assert await queue.wait_for_arrival(queue.redis, timeout_s=0.5)
    first = await board(queue, "b1", cap=2, lease=60_000)
    assert await queue.renew(["b1"], lease_ms=60_000) == [True]
    await queue.deliver("b1", [answer(seat, letter=b"{}") for seat in first.seats], ttl_s=60)
    await board(queue, "b2", cap=2)
    assert await queue.hand_back("b2") == 2
    await board(queue, "b3", cap=2)
    assert await queue.release("b3") == 2
    suspects = await board(queue, "b4", cap=2, lease=-1)
    assert ids(suspects)
    assert [taken.batch for taken in await queue.reclaim()] == ["b4"]
    await board(queue, "b5", cap=8)
    await queue.audit(grace_ms=1000)
    await queue.cancels(["a"])
    late = await queue.overdue()
    await queue.expire({name: result(name, "expired") for name in late}, ttl_s=60)
    await submit(producer, "g", "h", "i")
    await queue.peek(8)
    for name in ("a", "b"):
        await queue.learn({name: (1, 1.0, 1.0)}, kept_share=0.9, most_keys=1, ttl_s=60)
    await queue.lengths()
    await queue.results(["a"])


async def test_a_worker_may_call_all_that_a_worker_calls(guarded: Guarded, queue_as: QueueAs) -> None:
    worker = queue_as("worker")
    await worker.audit(grace_ms=1)  # loads the scripts
    await every_method_of_a_worker(worker, queue_as("producer"))
    assert guarded.refusals() == set()


async def test_an_operator_looks_after_the_queue(guarded: Guarded, queue_as: QueueAs) -> None:
    queue = queue_as("operator")
    await submit(queue, "a")
    assert (await queue.info()).oldest_waiting_ms is not None
    buried = letter("z", body("z"))
    await queue.redis.lpush(queue.keys.dead, buried.model_dump_json())
    assert [one.id for one in await queue.dead_letters()] == ["z"]
    assert await queue.redrive(buried)
    assert await queue.purge_dead() == 0
    with guarded.client() as redis:
        redis.config_set("maxmemory-policy", "noeviction")
        assert redis.acl_list()
        assert redis.keys("*")
    assert guarded.refusals() == set()


async def test_after_a_restart_a_producer_waits_until_a_worker_has_loaded_the_scripts(
    guarded: Guarded, start_worker: Start
) -> None:
    worker = await start_worker(guarded.url_for("worker")).ready()
    async with AsyncClient(guarded.url_for("producer"), patience_s=30) as client:
        assert (await client.generate(prompt="p", max_tokens=2, timeout_s=30)).status == "succeeded"
        worker.signal(signal.SIGSTOP)
        guarded.restart()
        asked = asyncio.create_task(client.generate(prompt="p", max_tokens=2))
        await asyncio.sleep(0.1)
        assert not asked.done()
        worker.signal(signal.SIGCONT)
        assert (await asyncio.wait_for(asked, 60)).status == "succeeded"


async def test_a_worker_loads_the_scripts_that_only_producers_run(guarded: Guarded, start_worker: Start) -> None:
    """A worker that finds its own there, from a version before, must load the others all the same."""
    with guarded.client() as redis:
        for name in set(scripts.names()) - {"submit", "status", "cancel", "queue_info"}:
            redis.script_load(scripts.source(name))
    await start_worker(guarded.url_for("worker")).ready()
    async with AsyncClient(guarded.url_for("producer"), patience_s=5) as client:
        await client.submit(prompt="p")
        await client.status("nobody")
        await client.cancel("nobody")
        await client.queue_info()


async def test_without_a_worker_a_producer_is_told_to_start_one(guarded: Guarded) -> None:
    async with AsyncClient(guarded.url_for("producer"), patience_s=0.2) as client:
        with pytest.raises(BusloadUnavailable, match="start a worker"):
            await client.submit(prompt="p")
