"""A cancel in every place a request can be: one result, soon, and nobody's seat is held for it."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.listening import listen_to_pattern
from tests.waiting import wait_until
from tests.worker.conftest import Depot

from busload_shared.replies import CancelState, Claim
from busload_shared.result import Result, ResultError
from busload_worker.worker import Worker

Make = Callable[..., dict[str, Any]]
HOSTS = pytest.mark.parametrize("engine_host", ["inline", "process"])
LONG = 100_000
"""Tokens; at 20 ms each a row runs for half an hour."""


async def cancel(depot: Depot, request_id: str) -> CancelState:
    error = ResultError(code="cancelled", message="cancelled while it waited")
    body = Result(id=request_id, status="cancelled", error=error, attempts=0).model_dump_json(exclude_none=True)
    return await depot.queue.cancel(request_id, result=body.encode(), ttl_s=600)


async def until_running(depot: Depot, *request_ids: str) -> None:
    async def running() -> bool:
        return {found.state for found in await depot.queue.status(request_ids)} == {"running"}

    await wait_until(running, what=f"{request_ids} are claimed")


async def until_begun(worker: Worker, size: int) -> None:
    async def begun() -> bool:
        return worker.vitals.batch_size == size and worker._run is not None and worker._run.ride.started_ms > 0

    await wait_until(begun, what=f"a batch of {size} runs")


async def test_a_waiting_one_is_answered_by_the_cancel_itself_and_never_boards(depot: Depot, request_of: Make) -> None:
    worker = await depot.start(max_batch_size=2, fake_per_token_ms=20)
    await depot.push(request_of("long", max_tokens=LONG), request_of("long2", max_tokens=LONG))
    await until_begun(worker, 2)
    await depot.push(request_of("wait"))

    async def stamped() -> bool:
        return (await depot.queue.status(["wait"]))[0].state == "waiting"

    await wait_until(stamped, what="the worker has seen it, though its engine is busy")
    assert await cancel(depot, "wait") == "cancelled"
    result = await depot.result("wait")
    assert result.status == "cancelled"
    assert [await cancel(depot, name) for name in ("long", "long2")] == ["running"] * 2
    await depot.push(request_of("next"))

    assert (await depot.result("next")).status == "succeeded"
    await depot.settled()
    assert await depot.result("wait") == result
    assert (await depot.queue.info()).counters == {"cancelled": 3, "succeeded": 1, "dropped": 1}


@HOSTS
@pytest.mark.parametrize("release", ["row", "batch"])
async def test_a_running_one_is_answered_soon_and_its_seat_is_free(
    depot: Depot, request_of: Make, engine_host: str, release: str
) -> None:
    worker = await depot.start(max_batch_size=2, fake_per_token_ms=20, engine_host=engine_host, release=release)
    await depot.push(request_of("stop", max_tokens=LONG), request_of("go", max_tokens=100))
    await until_begun(worker, 2)
    assert await cancel(depot, "stop") == "running"

    stopped = await depot.result("stop", timeout_s=5)
    neighbour = (await depot.queue.status(["go"]))[0].state
    went = await depot.result("go")
    await depot.push(request_of("next"))

    assert stopped.status == "cancelled"
    assert neighbour == "running"
    assert went.status == "succeeded"
    assert (await depot.result("next")).status == "succeeded", "the batch did not wait for who was cancelled"
    assert worker.vitals.engine_restarts == 0


async def test_one_claimed_ahead_is_answered_before_its_batch_begins(depot: Depot, request_of: Make) -> None:
    worker = await depot.start(max_batch_size=2, max_wait_ms=2000, fake_per_token_ms=20)
    await depot.push(*[request_of(name, max_tokens=LONG) for name in ("r0", "r1")], *map(request_of, ("r2", "r3")))
    await until_running(depot, "r0", "r1", "r2", "r3")
    assert await cancel(depot, "r3") == "running"

    cancelled = await depot.result("r3", timeout_s=5)
    others = {found.state for found in await depot.queue.status(["r0", "r1", "r2"])}
    for name in ("r0", "r1"):
        await cancel(depot, name)
    last = await depot.result("r2")

    assert cancelled.status == "cancelled"
    assert others == {"running"}
    assert last.status == "succeeded"
    assert last.batch is not None
    assert last.batch.size == 1, "it took no seat"
    await depot.settled()
    assert worker.vitals.leases_lost == 0


async def test_a_whole_batch_claimed_ahead_and_cancelled_leaves_nothing(depot: Depot, request_of: Make) -> None:
    worker = await depot.start(max_batch_size=2, max_wait_ms=2000, lease_s=0.8, fake_per_token_ms=20)
    await depot.push(*[request_of(f"r{i}", max_tokens=LONG) for i in range(4)])
    await until_running(depot, "r0", "r1", "r2", "r3")
    for name in ("r2", "r3"):
        await cancel(depot, name)

    results = await depot.results("r2", "r3")
    await depot.push(*[request_of(name, max_tokens=1) for name in ("s0", "s1")])
    await asyncio.sleep(1)  # over a lease: one kept for nobody would be called lost
    for name in ("r0", "r1"):
        await cancel(depot, name)
    more = await depot.results("s0", "s1")

    assert {r.status for r in results} == {"cancelled"}
    assert {r.status for r in more} == {"succeeded"}
    await depot.settled()
    assert worker.vitals.leases_lost == 0


async def a_suspect(depot: Depot, request: dict[str, Any]) -> None:
    """One whose batch has died once, under another worker."""
    await depot.push(request)
    claim = await depot.queue.claim("b", worker="w0", max_batch_size=1, max_wait_ms=1000, lease_ms=60_000, drain=True)
    assert isinstance(claim, Claim)
    assert await depot.queue.release("b") == 1


async def test_a_suspect_that_waits_is_answered_and_never_boards_again(depot: Depot, request_of: Make) -> None:
    await a_suspect(depot, request_of("a", metadata={"fake": "crash"}))
    assert await cancel(depot, "a") == "cancelled"
    worker = await depot.start()
    await depot.push(request_of("b"))

    assert (await depot.result("b")).status == "succeeded"
    await depot.settled()
    assert (await depot.result("a")).status == "cancelled"
    assert worker.vitals.engine_restarts == 0


@HOSTS
async def test_a_suspect_that_runs_is_answered_soon(depot: Depot, request_of: Make, engine_host: str) -> None:
    await a_suspect(depot, request_of("a", max_tokens=LONG))
    worker = await depot.start(fake_per_token_ms=20, engine_host=engine_host)
    await until_begun(worker, 1)
    assert await cancel(depot, "a") == "running"

    assert (await depot.result("a", timeout_s=5)).status == "cancelled"
    await depot.settled()
    assert (await depot.queue.info()).dead == 0


@HOSTS
async def test_one_that_hangs_the_engine_is_answered_soon_and_its_death_is_nobodys(
    depot: Depot, request_of: Make, engine_host: str
) -> None:
    worker = await depot.start(max_batch_size=1, engine_host=engine_host, engine_hang_s=2, max_batch_s=3, lease_s=2)
    await depot.push(request_of("a", metadata={"fake": "hang"}))
    await until_begun(worker, 1)
    await cancel(depot, "a")

    result = await depot.result("a", timeout_s=5)
    await depot.push(request_of("b"))
    after = await depot.result("b")

    assert (result.status, after.status) == ("cancelled", "succeeded")
    assert worker.vitals.engine_restarts == 1, "an engine that hangs cannot be told to stop a row"
    assert worker.vitals.leases_lost == 0, "its lease went with its answer, to nobody"
    await depot.settled()
    assert (await depot.queue.info()).counters.get("failed", 0) == 0


async def test_an_answered_one_stays_as_it_is_and_an_unknown_one_is_cancelled_should_it_come(
    depot: Depot, request_of: Make
) -> None:
    await depot.start()
    await depot.push(request_of("a"))
    answered = await depot.result("a")

    assert await cancel(depot, "a") == "answered"
    assert await cancel(depot, "b") == "unknown"
    await depot.push(request_of("b"))
    assert (await depot.result("b")).status == "cancelled"
    assert await depot.result("a") == answered


@pytest.mark.parametrize(("metadata", "status"), [({}, "succeeded"), ({"fake": "crash"}, "cancelled")])
async def test_a_cancel_that_is_read_late_stops_nobody_of_the_next_batch(
    depot: Depot, request_of: Make, metadata: dict[str, Any], status: str
) -> None:
    worker = await depot.start(max_batch_size=1, fake_per_token_ms=20)
    cancels, asked, go_on = worker._queue.cancels, asyncio.Event(), asyncio.Event()

    async def slow(request_ids: Sequence[str], *, batch: str) -> set[str]:
        found = await cancels(request_ids, batch=batch)
        if found:
            asked.set()
            await go_on.wait()
        return found

    worker._queue.cancels = slow  # type: ignore[method-assign]
    await depot.push(request_of("a", max_tokens=100, metadata=metadata))
    await until_begun(worker, 1)
    await cancel(depot, "a")
    async with asyncio.timeout(10):
        await asked.wait()
    await depot.push(request_of("b", max_tokens=100))
    first = await depot.result("a")
    await until_running(depot, "b")
    await until_begun(worker, 1)
    go_on.set()
    second = await depot.result("b")

    assert first.status == status, "it ended, or its engine died, before its cancel was read"
    assert (second.status, second.attempts) == ("succeeded", 1)


@HOSTS
async def test_two_hundred_cancels_at_any_moment_never_give_two_results(
    depot: Depot, request_of: Make, engine_host: str
) -> None:
    names = [f"r{i}" for i in range(200)]
    moments = random.Random(7)
    for worker in ("one", "two"):
        await depot.start(worker_name=worker, max_batch_size=16, fake_per_token_ms=8, engine_host=engine_host)
    told: Counter[str] = Counter()
    async with depot.redis.pubsub(ignore_subscribe_messages=True) as listener:
        await listen_to_pattern(listener, depot.queue.keys.done("*").replace("{", "[{]"))

        async def listen() -> None:
            async for message in listener.listen():
                told[message["channel"].decode().rpartition(":")[2]] += 1

        async def race(name: str) -> None:
            await asyncio.sleep(moments.random() * 2)
            await asyncio.gather(cancel(depot, name), cancel(depot, name))

        listening = asyncio.create_task(listen())
        await depot.push(*[request_of(name, max_tokens=1 + index % 40) for index, name in enumerate(names)])
        await asyncio.gather(*map(race, names))
        first = await depot.results(*names)
        await depot.settled()
        await asyncio.sleep(0.2)  # a second message would follow the first at once
        listening.cancel()

    statuses = Counter(result.status for result in first)
    counters = (await depot.queue.info()).counters
    assert told == Counter(names), "each is told of once"
    assert await depot.results(*names) == first
    assert set(statuses) == {"succeeded", "cancelled"}, "the race went both ways"
    assert {status: counters[status] for status in statuses} == statuses
