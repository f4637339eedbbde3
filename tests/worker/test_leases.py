"""A worker's hold on its batch: kept while it runs, however long; known to be lost when it is."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any

from tests.waiting import wait_until
from tests.worker.conftest import Depot
from tests.worker_process import WorkerProcess

Make = Callable[..., dict[str, Any]]


async def test_a_batch_three_leases_long_runs_once_while_another_worker_reclaims(
    depot: Depot, request_of: Make
) -> None:
    await depot.start(lease_s=1, fake_overhead_ms=3200)
    await depot.push(request_of("a"))
    await asyncio.sleep(0.1)
    await depot.start(lease_s=1, worker_name="w2")

    result = await depot.result("a")

    assert (result.worker, result.attempts) == ("w1", 1)
    assert "reclaimed" not in (await depot.queue.info()).counters


async def test_a_worker_whose_lease_is_gone_learns_it_counts_it_and_stops_those_rows(
    depot: Depot, request_of: Make
) -> None:
    worker = await depot.start(lease_s=1, fake_per_token_ms=50)
    await depot.push(request_of("a", max_tokens=1000))

    async def running() -> bool:
        return worker.vitals.batch is not None

    await wait_until(running, what="the batch runs")
    await depot.redis.delete(depot.queue.keys.leases)

    async def learnt() -> bool:
        return worker.vitals.leases_lost == 1 and worker.vitals.batches_done == 1

    await wait_until(learnt, what="the worker stops the batch it has lost")


async def test_a_lease_that_went_with_the_last_answer_is_not_called_lost(depot: Depot, request_of: Make) -> None:
    worker = await depot.start()
    leave, renewed = worker._answers_leave, asyncio.Event()

    async def renewed_just_then() -> None:
        """Between a batch's end and its close, once Redis has its answers."""

        async def answered() -> bool:
            return (await depot.queue.info()).inflight == 0

        await wait_until(answered, what="its answers are in Redis")
        await worker._leases.renew()
        renewed.set()
        await leave()

    worker._answers_leave = renewed_just_then  # type: ignore[method-assign]
    await depot.push(request_of("a"))
    await depot.result("a")
    async with asyncio.timeout(20):
        await renewed.wait()

    assert worker.vitals.leases_lost == 0


async def test_a_batch_over_its_longest_time_is_given_up_and_its_engine_killed(depot: Depot, request_of: Make) -> None:
    worker = await depot.start(lease_s=0.5, max_batch_s=0.7, max_batch_size=2, max_wait_ms=1000)
    await depot.push(request_of("hang", metadata={"fake": "hang"}), request_of("good"))

    good, hung = await depot.results("good", "hang")

    assert good.status == "succeeded"
    assert hung.error is not None
    assert hung.error.code == "poison"
    assert worker.vitals.engine_restarts >= 2


async def test_idle_and_busy_workers_stay_on_the_list_without_any_traffic(depot: Depot, request_of: Make) -> None:
    await depot.start(worker_name="idle", max_wait_ms=5000)
    await depot.start(worker_name="busy", fake_overhead_ms=60_000, drain_s=0.1)
    await depot.push(request_of("a"))
    first = dict(await depot.redis.zrange(depot.queue.keys.workers, 0, -1, withscores=True))

    async def said_again() -> bool:
        later = dict(await depot.redis.zrange(depot.queue.keys.workers, 0, -1, withscores=True))
        return all(later[name] > beat for name, beat in first.items())

    await wait_until(said_again, what="both beat again")
    assert set(first) == {b"idle", b"busy"}


async def test_pushes_that_race_a_stop_are_answered_or_still_wait(
    depot: Depot, start_process: Callable[..., WorkerProcess], request_of: Make
) -> None:
    names = [f"r{i}" for i in range(1000)]
    worker = await start_process(max_wait_ms=1, max_batch_size=4).ready()
    for i, name in enumerate(names):
        await depot.push(request_of(name))
        if i == 500:
            worker.signal(signal.SIGTERM)
    assert await worker.ended() == 0

    states = [found.state for found in await depot.queue.status(names)]
    waiting = await depot.redis.llen(depot.queue.keys.queue)

    assert states.count("answered") + waiting == 1000
    assert states.count("answered") > 0
    assert (await depot.queue.info()).inflight == 0
