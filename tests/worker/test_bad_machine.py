"""A machine that kills every batch stops and convicts nobody; a request that kills every engine is convicted."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
from tests.waiting import wait_until
from tests.worker.conftest import Depot
from tests.worker_process import WorkerProcess

from busload_shared.element import Element
from busload_shared.queue import Queue
from busload_shared.replies import Claim, Seat
from busload_shared.result import Trigger
from busload_worker.engines.host import EngineHost
from busload_worker.standing import LONE_DEATHS_UNTIL_OURS_COUNT_AGAIN, REMEMBERED, Standing

from .hosts import until

Make = Callable[..., dict[str, Any]]
Start = Callable[..., WorkerProcess]
BAD = {"engine": "tests.worker.killing_core:KillingCore", "worker_name": "bad", "max_batch_size": 4}


async def test_a_bad_machine_stops_by_itself_and_says_so_and_all_are_answered_by_the_good_one(
    depot: Depot, start_process: Start, request_of: Make
) -> None:
    await start_process(worker_name="good", max_batch_size=4, fake_overhead_ms=200).ready()
    bad = await start_process(**BAD).ready()
    names: list[str] = []
    async with asyncio.timeout(60):
        while bad.process.poll() is None:
            more = [f"r{len(names) + n}" for n in range(4)]
            names += more
            await depot.push(*[request_of(name) for name in more])
            await asyncio.sleep(0.2)

    results = await depot.results(*names)
    info = await depot.queue.info()

    assert await bad.ended() == 5
    assert {(r.status, r.worker) for r in results} == {("succeeded", "good")}
    assert info.dead == 0
    assert {worker.state for worker in info.workers if worker.name == "bad"} <= {"broken"}
    assert not bad.ready_file.exists()
    (said,) = bad.lines("this worker stops")
    assert said["level"] == "ERROR"
    for what_to_do in ("nvidia-smi", "dmesg", "start the worker again", "BUSLOAD_BAD_MACHINE_AFTER"):
        assert what_to_do in said["message"]
    assert len(bad.lines("engine starts again")) >= 2, "it was given more than one chance"


async def test_a_bad_machine_that_is_alone_leaves_the_requests_to_whoever_comes(
    depot: Depot, start_process: Start, request_of: Make
) -> None:
    names = [f"r{i}" for i in range(24)]
    await depot.push(*[request_of(name) for name in names])
    bad = start_process(**BAD, bad_machine_after=2)

    assert await bad.ended(timeout_s=60) == 5
    left = await depot.queue.info()
    (record,) = left.workers
    await depot.start(max_batch_size=4)
    results = await depot.results(*names)

    assert (left.waiting + left.retry, left.inflight, left.leases, left.dead) == (24, 0, 0, 0)
    assert (record.name, record.state) == ("bad", "broken")
    assert {r.status for r in results} == {"succeeded"}


async def test_a_killer_is_convicted_by_one_worker_alone_which_goes_on(depot: Depot, request_of: Make) -> None:
    worker = await depot.start(max_batch_size=8, max_wait_ms=500)
    kill = {"metadata": {"fake": "crash"}}
    await depot.push(request_of("lone", **kill))
    lone = await depot.result("lone", timeout_s=60)
    await depot.push(*[request_of(f"bad{i}", **kill) for i in range(3)], *[request_of(f"r{i}") for i in range(5)])

    bad = [await depot.result(f"bad{i}", timeout_s=60) for i in range(3)]
    good = await depot.results(*[f"r{i}" for i in range(5)])

    assert [r.error.code if r.error else None for r in (lone, *bad)] == ["poison"] * 4
    assert lone.attempts == 2, "two lone deaths, no more"
    assert {r.status for r in good} == {"succeeded"}
    assert not worker.broken, "suspects that die again and again say nothing of the machine"


async def test_a_killers_two_lone_deaths_are_on_two_workers_where_there_are_two(depot: Depot, request_of: Make) -> None:
    workers = [await depot.start(worker_name=name) for name in ("one", "two")]

    async def both_know() -> bool:
        return len((await depot.queue.info()).workers) == 2 and not any(worker.vitals.alone for worker in workers)

    await wait_until(both_know, what="both know of each other")
    await depot.push(request_of("bad", metadata={"fake": "crash"}))

    result = await depot.result("bad", timeout_s=60)

    assert result.error is not None
    assert result.error.code == "poison"
    assert all(worker.vitals.engine_restarts for worker in workers)
    assert not any(worker.broken for worker in workers)


async def test_an_engine_that_died_while_idle_is_not_the_next_requests_fault(depot: Depot, request_of: Make) -> None:
    worker = await depot.start(engine_host="process")
    host = worker._keeper.engine
    assert isinstance(host, EngineHost)
    assert host.pid is not None
    os.kill(host.pid, signal.SIGKILL)
    await until(lambda: host.pid is None, within_s=10)
    await depot.push(request_of("a"))

    result = await depot.result("a")

    assert (result.status, result.attempts) == ("succeeded", 1)
    assert worker.vitals.engine_restarts == 1


async def test_a_lone_death_that_is_no_evidence_is_an_attempt_only(any_queue: Queue) -> None:
    await any_queue.redis.lpush(any_queue.keys.queue, '{"id":"a","prompt":"p"}')
    seen = []
    for number, evidence in enumerate((False, True, False)):
        claim = await any_queue.claim(
            f"b{number}", worker="w", max_batch_size=1, max_wait_ms=0.001, lease_ms=1000, drain=True
        )
        assert isinstance(claim, Claim)
        seen.append(claim.seats[0].element[1:3])
        await any_queue.release(claim.batch, evidence=evidence)
    assert seen == [(0, 0), (1, 0), (2, 1)]


def a_claim(trigger: Trigger = "full") -> Claim:
    return Claim("b", 0.0, 0.0, 0, trigger, (Seat(0, Element(0.0, 0, 0, "", "a", b"{}"), False),))


def test_fresh_batches_that_die_in_a_row_speak_against_the_machine() -> None:
    standing = Standing(bad_after=3)
    for _ in range(2):
        standing.died(a_claim())
        for _ in range(20):
            standing.died(a_claim("retry"))
    assert not standing.broken, "suspects do not count"
    standing.survived()
    standing.died(a_claim("timeout"))
    standing.died(None)
    assert not standing.broken, "a batch that ran well cleared it"
    standing.died(a_claim())
    assert standing.broken
    assert "3 fresh batches" in standing.verdict()


def test_none_is_ever_bad_where_the_setting_is_0() -> None:
    standing = Standing(bad_after=0)
    for _ in range(1000):
        standing.died(a_claim())
    assert not standing.broken


@pytest.mark.parametrize("alone", [True, False])
def test_a_workers_lone_deaths_of_one_request_count_once_while_others_may_take_it(alone: bool) -> None:
    standing = Standing(bad_after=3)
    counted = [standing.counts(["a"], alone=alone) for _ in range(LONE_DEATHS_UNTIL_OURS_COUNT_AGAIN)]
    assert counted == ([True] * 4 if alone else [True, False, False, True])
    assert standing.counts(["b"], alone=alone), "each request for itself"


def test_what_is_remembered_of_lone_deaths_is_bounded() -> None:
    standing = Standing(bad_after=3)
    for number in range(3 * REMEMBERED):
        standing.counts([f"r{number}"], alone=False)
    assert len(standing._lone_deaths) == REMEMBERED
    assert not standing.counts([f"r{3 * REMEMBERED - 1}"], alone=False)
