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
from busload_shared.result import Status
from busload_worker.engines.host import EngineHost
from busload_worker.standing import (
    ASKED_AT_ONCE,
    DEATHS_FOR_A_BATCH,
    LONE_DEATHS_UNTIL_OURS_COUNT_AGAIN,
    REMEMBERED,
    Standing,
)

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
    for what_to_do in (
        "batches that other workers answered",
        "nvidia-smi",
        "dmesg",
        "start the worker again",
        "BUSLOAD_BAD_MACHINE_AFTER",
    ):
        assert what_to_do in said["message"]
    assert len(bad.lines("engine starts again")) >= 2, "it was given more than one chance"


async def test_a_bad_machine_that_is_alone_leaves_the_requests_to_whoever_comes(
    depot: Depot, start_process: Start, request_of: Make
) -> None:
    names = [f"r{i}" for i in range(24)]
    await depot.push(*[request_of(name) for name in names])
    bad = start_process(**BAD, bad_machine_after=1)

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

    async def both_started_again() -> bool:
        return all(worker.vitals.engine_restarts for worker in workers)

    await wait_until(both_started_again, what="the engines of both had died of it")
    assert not any(worker.broken for worker in workers)


async def test_a_stream_with_many_killers_does_not_make_good_machines_bad(depot: Depot, request_of: Make) -> None:
    workers = [await depot.start(worker_name=name, max_batch_size=8) for name in ("one", "two")]
    killers = {f"r{i}" for i in range(5, 80, 11)}
    names = [f"r{i}" for i in range(80)]
    await depot.push(*[request_of(n, **({"metadata": {"fake": "crash"}} if n in killers else {})) for n in names])

    good = [await depot.result(name, timeout_s=90) for name in names if name not in killers]

    assert {r.status for r in good} == {"succeeded"}
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


def a_claim(*names: str, lone_deaths: int = 0) -> Claim:
    seats = (Seat(i, Element(0.0, 0, lone_deaths, "", name, b"{}"), False) for i, name in enumerate(names))
    return Claim("b", 0.0, 0.0, 0, "full", tuple(seats))


def test_dead_batches_that_others_answer_well_speak_against_the_machine() -> None:
    standing = Standing(bad_after=3)
    for turn in ("a", "b"):
        standing.died(a_claim(f"{turn}1", f"{turn}2"))
        standing.died(a_claim(f"{turn}1"))
        standing.became({f"{turn}1": "succeeded"})
        standing.became({f"{turn}2": "succeeded"})
    assert standing.asked() == []
    standing.died(None)
    assert standing.broken, "two batches, though one's half died as well; and one death with no batch at all"
    assert "3 batches that other workers answered" in standing.verdict()


def test_what_ran_well_here_since_clears_the_machine() -> None:
    standing = Standing(bad_after=2)
    standing.died(a_claim("a"))
    standing.became({"a": "succeeded"})
    standing.died(a_claim("b"))
    standing.survived()
    standing.became({"b": "succeeded"})
    standing.died(a_claim("c"))
    standing.became({"c": "succeeded"})
    assert not standing.broken


@pytest.mark.parametrize("status", ["failed", "cancelled", "expired"])
def test_a_batch_with_one_that_may_have_been_the_killer_says_nothing(status: Status) -> None:
    standing = Standing(bad_after=1)
    standing.died(a_claim("a", "b"))
    standing.became({"a": "succeeded"})
    assert not standing.broken, "the other is not answered yet"
    standing.became({"b": status})
    assert not standing.broken
    assert standing.asked() == []


def test_deaths_in_a_row_speak_against_the_machine_without_any_other_worker() -> None:
    standing = Standing(bad_after=2)
    for number in range(2 * DEATHS_FOR_A_BATCH - 1):
        standing.died(a_claim(f"r{number}", f"s{number}"))
        standing.died(a_claim(f"t{number}", lone_deaths=1))
    assert not standing.broken, "a second lone death is a killer's as well as a machine's"
    standing.died(a_claim("lone"))
    assert standing.broken
    assert f"{2 * DEATHS_FOR_A_BATCH} times in a row" in standing.verdict()


def test_none_is_ever_bad_where_the_setting_is_0() -> None:
    standing = Standing(bad_after=0)
    for number in range(1000):
        standing.died(a_claim(f"r{number}"))
        standing.died(None)
    assert not standing.broken


def counted(standing: Standing, name: str, *, alone: bool) -> bool:
    claim = a_claim(name)
    evidence = standing.counts(claim, alone=alone)
    standing.died(claim)
    return evidence


@pytest.mark.parametrize("alone", [True, False])
def test_a_workers_lone_deaths_of_one_request_count_once_while_others_may_take_it(alone: bool) -> None:
    standing = Standing(bad_after=3)
    deaths = [counted(standing, "a", alone=alone) for _ in range(LONE_DEATHS_UNTIL_OURS_COUNT_AGAIN)]
    assert deaths == ([True] * 4 if alone else [True, False, False, True])
    assert counted(standing, "b", alone=alone), "each request for itself"


def test_a_worker_that_is_alone_is_not_believed_twice_once_several_requests_died_alone_in_a_row() -> None:
    standing = Standing(bad_after=3)
    assert [counted(standing, name, alone=True) for name in "aabb"] == [True] * 4
    assert [counted(standing, "c", alone=True) for _ in range(2)] == [True, False]
    standing.survived()
    assert counted(standing, "c", alone=True)


def test_what_is_remembered_is_bounded() -> None:
    standing = Standing(bad_after=100_000)
    for number in range(3 * REMEMBERED):
        assert standing.counts(a_claim(f"r{number}"), alone=False)
        standing.died(a_claim(f"r{number}", lone_deaths=1))
    assert len(standing._lone_deaths) == len(standing._open) == REMEMBERED
    assert not standing.counts(a_claim(f"r{3 * REMEMBERED - 1}"), alone=False)
    assert len(standing.asked()) == ASKED_AT_ONCE
