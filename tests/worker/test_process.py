"""A worker as operations run it: a process that gets signals, loses Redis, is killed, and says what it did."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from typing import Any

import pytest
from tests.redis_servers import Server
from tests.waiting import wait_until
from tests.worker.conftest import Depot
from tests.worker_process import WorkerProcess

Make = Callable[..., dict[str, Any]]
Start = Callable[..., WorkerProcess]


async def until_running(depot: Depot, request_id: str) -> None:
    async def running() -> bool:
        """By its worker's own word: Redis knows of a claim before the worker, which would hand it back on SIGTERM."""
        batch = (await depot.queue.status([request_id]))[0].batch
        return batch is not None and any(worker.batch == batch for worker in (await depot.queue.info()).workers)

    await wait_until(running, what=f"{request_id} runs")


async def test_two_workers_share_a_queue_in_full_batches_and_answer_each_request_once(
    depot: Depot, start_process: Start, request_of: Make
) -> None:
    first = start_process(max_batch_size=8, fake_overhead_ms=30)
    second = start_process(max_batch_size=8, fake_overhead_ms=30)
    await first.ready()
    await second.ready()
    names = [f"r{i}" for i in range(400)]
    await depot.push(*[request_of(name) for name in names])

    results = await depot.results(*names)
    counters = (await depot.queue.info()).counters

    assert {r.batch.size for r in results if r.batch} == {8}
    assert len({r.worker for r in results}) == 2
    assert counters["succeeded"] == 400
    assert all(r.id in r.text for r in results)


async def test_a_worker_killed_in_the_middle_of_a_batch_loses_nothing(
    depot: Depot, start_process: Start, request_of: Make
) -> None:
    victim = await start_process(max_batch_size=4, fake_overhead_ms=60_000, lease_s=2, max_wait_ms=50).ready()
    names = ["a", "b", "c", "d"]
    await depot.push(*[request_of(name) for name in names])
    await until_running(depot, "a")
    other = await start_process(max_batch_size=4, lease_s=2).ready()
    victim.signal(signal.SIGKILL)

    results = await depot.results(*names)

    assert {r.status for r in results} == {"succeeded"}
    assert {r.attempts for r in results} == {2}
    (taken,) = other.lines("took back a batch")
    assert taken["rows"] == 4


async def test_sigterm_finishes_the_running_batch_and_ends_with_0(
    depot: Depot, start_process: Start, request_of: Make
) -> None:
    worker = await start_process(fake_overhead_ms=4000, max_batch_size=2).ready()
    await depot.push(request_of("a"), request_of("b"), request_of("c"))
    await until_running(depot, "a")
    worker.signal(signal.SIGTERM)

    assert await worker.ended() == 0

    results = await depot.queue.status(["a", "b", "c"])
    assert [r.state for r in results] == ["answered", "answered", "waiting"]
    assert not worker.ready_file.exists()
    assert (await depot.queue.info()).workers == ()


@pytest.mark.parametrize("engine_host", ["inline", "process"])
async def test_sigterm_while_it_starts_ends_it_with_0_as_soon_as_anybody_can_see_it(
    depot: Depot, start_process: Start, engine_host: str
) -> None:
    for _ in range(3):
        worker = start_process(engine_host=engine_host)

        async def listed() -> bool:
            return bool(await depot.redis.zcard(depot.queue.keys.workers))

        await wait_until(listed, what="the worker is on the list")
        worker.signal(signal.SIGTERM)
        assert await worker.ended() == 0, worker.log()
        assert not await listed()


async def test_what_does_not_finish_within_the_drain_goes_back_in_order_with_its_age_and_no_attempt(
    depot: Depot, start_process: Start, request_of: Make
) -> None:
    worker = await start_process(fake_overhead_ms=60_000, max_batch_size=2, drain_s=0.5).ready()
    await depot.push(request_of("a"), request_of("b"), request_of("c"))
    await until_running(depot, "a")
    claimed = await depot.redis.hvals(depot.queue.keys.inflight)
    worker.signal(signal.SIGTERM)

    assert await worker.ended() == 0

    waiting = await depot.redis.lrange(depot.queue.keys.queue, 0, -1)
    assert [json.loads(element[element.index(b"{") :])["id"] for element in waiting] == ["c", "b", "a"]
    assert sorted(waiting[1:]) == sorted(claimed)
    assert all(b" 0 0 " in element[:32] for element in waiting)
    assert (await depot.queue.info()).inflight == 0


async def test_a_second_sigint_stops_at_once_and_hands_back(
    depot: Depot, start_process: Start, request_of: Make
) -> None:
    worker = await start_process(fake_overhead_ms=60_000).ready()
    await depot.push(request_of("a"))
    await until_running(depot, "a")
    worker.signal(signal.SIGINT)

    async def draining() -> bool:
        return bool(worker.lines("draining"))

    await wait_until(draining, what="the first signal drains")
    worker.signal(signal.SIGINT)

    assert await worker.ended() == 130
    assert (await depot.queue.status(["a"]))[0].state == "waiting"


async def test_a_worker_that_slept_past_its_lease_cannot_answer_a_second_time(
    depot: Depot, start_process: Start, request_of: Make
) -> None:
    zombie = await start_process(fake_overhead_ms=2500, lease_s=1).ready()
    await depot.push(request_of("a"))
    await until_running(depot, "a")
    zombie.signal(signal.SIGSTOP)
    await start_process(lease_s=1).ready()
    result = await depot.result("a")
    zombie.signal(signal.SIGCONT)

    async def refused() -> bool:
        return bool(zombie.lines("results refused") or zombie.lines("lease lost"))

    await wait_until(refused, what="the zombie learns that its lease is gone")
    assert await depot.result("a") == result
    assert (await depot.queue.info()).counters["succeeded"] == 1


async def test_results_are_kept_while_redis_is_away_and_written_when_it_is_back(
    depot: Depot, start_process: Start, request_of: Make, any_server: Server
) -> None:
    worker = await start_process(fake_overhead_ms=700, lease_s=60).ready()
    await depot.push(request_of("a"))
    await until_running(depot, "a")
    any_server.pause()

    async def kept() -> bool:
        return bool(worker.lines("results kept"))

    await wait_until(kept, timeout_s=30, what="the worker notices")
    any_server.resume()

    assert (await depot.result("a")).status == "succeeded"
    assert (await depot.result("a")).attempts == 1


async def test_a_worker_survives_a_restart_of_redis(
    depot: Depot, start_process: Start, request_of: Make, any_server: Server
) -> None:
    worker = await start_process().ready()
    for turn in range(3):
        any_server.restart(keep=True)
        await depot.redis.connection_pool.disconnect()
        await depot.push(request_of(f"r{turn}"))
        assert (await depot.result(f"r{turn}")).status == "succeeded"
    assert worker.process.poll() is None


async def test_the_log_has_one_line_for_each_batch_and_never_a_prompt(
    depot: Depot, start_process: Start, request_of: Make
) -> None:
    worker = await start_process(max_batch_size=2, log_format="json").ready()
    await depot.push(*[request_of(name, prompt="my secret question") for name in ("a", "b", "c")])
    results = await depot.results("a", "b", "c")
    worker.signal(signal.SIGTERM)
    await worker.ended()

    lines = worker.lines("batch done")

    assert [line["size"] for line in lines] == [2, 1]
    assert {r.batch.id for r in results if r.batch} == {line["batch"] for line in lines}
    assert lines[0].keys() >= {"trigger", "oldest_wait_ms", "tokens", "run_ms", "as_one_unit"}
    assert "secret" not in worker.log()
    assert "secret" not in results[0].text


@pytest.mark.parametrize(
    ("settings", "code", "said"),
    [
        ({"max_wait_ms": "50ms"}, 2, "BUSLOAD_MAX_WAIT_MS='50ms'"),
        ({"max_wait_ms": 0}, 2, "BUSLOAD_MAX_WAIT_MS=1"),
        ({"max_wait_ms": -5}, 2, "BUSLOAD_MAX_WAIT_MS"),
        ({"lease_s": 15000}, 2, "milliseconds?"),
        ({"max_batch_size": 0}, 2, "BUSLOAD_MAX_BATCH_SIZE"),
        ({"queue": "with {brace}"}, 2, "BUSLOAD_QUEUE"),
        ({"engine": "vllm"}, 2, "BUSLOAD_MODEL"),
        ({"redis_url": "redis://127.0.0.1:1/0"}, 3, "Redis does not answer"),
        ({"redis_url": "http://:pass-word@127.0.0.1:1/0"}, 2, "redis://"),
    ],
)
async def test_a_wrong_setting_ends_the_start_with_the_line_to_change(
    start_process: Start, settings: dict[str, Any], code: int, said: str
) -> None:
    worker = start_process(**settings)

    assert await worker.ended() == code
    assert said in worker.log()
    assert "Traceback" not in worker.log()
    assert "pass-word" not in worker.log()


async def test_a_redis_that_may_evict_is_refused_with_the_line_to_change(
    start_process: Start, any_server: Server
) -> None:
    any_server.config_set("maxmemory-policy", "allkeys-lru")
    worker = start_process()

    assert await worker.ended() == 3
    assert "maxmemory-policy noeviction" in worker.log()
