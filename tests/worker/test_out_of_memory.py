"""A batch that is too much for the engine's memory runs again in halves, in the same claim, and the engine lives."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest
from tests.waiting import wait_until
from tests.worker.conftest import Depot

from busload_shared.element import Element
from busload_shared.errors import OutOfMemory
from busload_shared.queue import Queue
from busload_shared.replies import Claim, Seat
from busload_shared.request import Request
from busload_shared.result import Result
from busload_worker.admission import admit
from busload_worker.answers import Ride
from busload_worker.engine_first import EngineFirst
from busload_worker.engines.fake_model import FakeCurve
from busload_worker.engines.protocol import BatchDone, BatchStarted, EngineEvent, EngineInfo, EngineRow
from busload_worker.engines.shortage import ran_out_of_memory
from busload_worker.outbox import Outbox
from busload_worker.running import BatchRun
from busload_worker.weight import GROW_AFTER, BatchLimit
from busload_worker.worker import Worker

from .hosts import a_host, a_row, texts, told

Make = Callable[..., dict[str, Any]]


def holds(rows: int) -> dict[str, Any]:
    """Metadata of a request on whose engine only so many rows fit into memory."""
    return {"metadata": {"fake_oom_over": rows}}


def sizes(results: list[Result]) -> list[int]:
    return [result.batch.size for result in results if result.batch]


@pytest.mark.parametrize("engine_host", ["inline", "process"])
async def test_rows_that_are_too_many_together_are_answered_in_halves_of_one_claim(
    depot: Depot, request_of: Make, caplog: pytest.LogCaptureFixture, engine_host: str
) -> None:
    caplog.set_level(logging.INFO, logger="busload.batch")
    worker = await depot.start(max_batch_size=8, max_wait_ms=2000, engine_host=engine_host)
    await depot.push(*[request_of(f"r{i}", **holds(2)) for i in range(8)])

    results = await depot.results(*[f"r{i}" for i in range(8)])
    await until_over(worker)
    counters = (await depot.queue.info()).counters

    assert {r.status for r in results} == {"succeeded"}
    assert all(r.id in r.text for r in results)
    assert sizes(results) == [2] * 8, "a result tells how many it ran with, not how many were claimed"
    assert len({r.batch.id for r in results if r.batch}) == 1, "one claim"
    assert {r.attempts for r in results} == {3}, "with eight, with four, and with two"
    assert counters.get("released", 0) == counters.get("reclaimed", 0) == 0, "none became a suspect"
    assert (worker.vitals.engine_restarts, worker.vitals.out_of_memory) == (0, 3)
    lines = [record.getMessage() for record in caplog.records if record.name == "busload.batch"]
    assert [line.startswith("the engine ran out of memory") for line in lines].count(True) == 3
    assert lines.count("batch done") == 4


@pytest.mark.parametrize("engine_host", ["inline", "process"])
async def test_a_row_that_is_too_heavy_alone_is_told_so_and_its_neighbours_are_answered(
    depot: Depot, request_of: Make, engine_host: str
) -> None:
    worker = await depot.start(max_batch_size=8, max_wait_ms=2000, engine_host=engine_host)
    names = [f"r{i}" for i in range(7)]
    heavy = request_of("heavy", metadata={"fake": "oom"})
    await depot.push(*[request_of(name) for name in names[:3]], heavy, *[request_of(name) for name in names[3:]])

    results = await depot.results(*names)
    failed = await depot.result("heavy")
    await depot.push(*[request_of(f"again{i}") for i in range(8)])
    again = await depot.results(*[f"again{i}" for i in range(8)])

    assert {r.status for r in results} == {"succeeded"}
    assert failed.status == "failed"
    assert failed.error is not None
    assert failed.error.code == "too_heavy"
    for who_does_what in ("shorten it", "operations must free memory"):
        assert who_does_what in failed.error.message
    assert worker.vitals.engine_restarts == 0
    assert await depot.queue.dead_letters() == []
    assert sizes(again) == [8] * 8, "one heavy row explains it: the others' batches stay as large as they were"


async def test_the_worker_claims_less_for_a_while_and_grows_back(depot: Depot, request_of: Make) -> None:
    worker = await depot.start(max_batch_size=8, max_wait_ms=2000)
    await depot.push(*[request_of(f"r{i}", **holds(4)) for i in range(8)])
    await depot.results(*[f"r{i}" for i in range(8)])
    names = [f"s{i}" for i in range(4 * GROW_AFTER + 4 + 8)]
    await depot.push(*[request_of(name) for name in names])

    after = sizes(await depot.results(*names))

    assert after[: 4 * GROW_AFTER] == [4] * 4 * GROW_AFTER
    assert sorted(after[4 * GROW_AFTER :]) == [4] * 4 + [8] * 8, "one of four may have been claimed ahead"
    assert worker.vitals.out_of_memory == 1


async def test_a_row_cancelled_while_the_other_half_runs_is_answered_at_once_and_does_not_run(
    depot: Depot, request_of: Make
) -> None:
    worker = await depot.start(max_batch_size=4, max_wait_ms=2000, fake_per_token_ms=20)
    await depot.push(*[request_of(f"r{i}", max_tokens=100, **holds(2)) for i in range(4)])
    await until_split(worker)
    assert await depot.queue.cancel("r3", result=b"{}", ttl_s=60) == "running"

    cancelled = await depot.result("r3")
    states = [found.state for found in await depot.queue.status(["r0", "r1", "r2"])]
    leases = (await depot.queue.info()).leases
    others = await depot.results("r0", "r1", "r2")

    assert cancelled.status == "cancelled"
    assert (states, leases) == (["running"] * 3, 1), "all halves are under one lease"
    assert [r.status for r in others] == ["succeeded"] * 3
    assert sizes(others) == [2, 2, 1]


async def until_over(worker: Worker) -> None:
    async def over() -> bool:
        return worker.vitals.batches_done == 1

    await wait_until(over, what="the batch is over")


async def until_split(worker: Worker) -> None:
    async def split() -> bool:
        return worker._run is not None and worker._run.out_of_memory > 0

    await wait_until(split, what="the batch is split")


async def test_a_stop_between_the_halves_hands_back_what_is_left(depot: Depot, request_of: Make) -> None:
    worker = await depot.start(max_batch_size=4, max_wait_ms=2000, fake_overhead_ms=60_000, drain_s=0.2)
    await depot.push(*[request_of(f"r{i}", **holds(2)) for i in range(4)])
    await until_split(worker)
    await depot.stop_workers()

    waiting = await depot.redis.lrange(depot.queue.keys.queue, 0, -1)

    assert len(waiting) == 4
    assert all(Element.parse(element, latest_ms=1e15).attempts == 0 for element in waiting)


async def test_held_results_leave_with_their_half_and_tell_its_size(depot: Depot, request_of: Make) -> None:
    await depot.start(max_batch_size=4, max_wait_ms=2000, release="batch", fake_per_token_ms=5)
    await depot.push(*[request_of(f"r{i}", max_tokens=10 * (i + 1), **holds(3)) for i in range(4)])

    results = await depot.results(*[f"r{i}" for i in range(4)])

    assert sizes(results) == [2] * 4
    held = [r.timing.held_ms for r in results if r.timing]
    assert held[0] > 20
    assert held[1] < held[0]


class Forgetful:
    """An engine that runs out of memory with more than one row, and has its rows taken away in the first half."""

    def __init__(self) -> None:
        self.ran: list[list[int]] = []
        self.lost: Callable[[], None] = lambda: None

    async def start(self) -> EngineInfo:
        raise AssertionError("not started again")

    async def run(self, batch: str, rows: Sequence[EngineRow]) -> AsyncIterator[EngineEvent]:
        self.ran.append([row.index for row in rows])
        if len(rows) > 1:
            raise OutOfMemory("more than one row")
        yield BatchStarted(rows=1, prompt_tokens=1, tokens=2)
        self.lost()
        yield BatchDone(ran_ms=1, prompt_tokens=1, completion_tokens=0)

    def abort(self, indexes: frozenset[int]) -> None: ...
    async def kill(self) -> None: ...
    async def stop(self) -> None: ...


async def test_rows_that_another_worker_has_by_now_do_not_run_here(any_queue: Queue) -> None:
    payloads = [Request(id=f"r{i}", prompt="p").model_dump_json(exclude_none=True).encode() for i in range(4)]
    seats = tuple(Seat(i, Element(1.0, 0, 0, "", f"r{i}", payload), False) for i, payload in enumerate(payloads))
    ride = Ride(Claim("b", 1.0, 1.0, 0, "full", seats), "w", size=4)
    run = BatchRun(
        ride, admit(ride, 1.0), Outbox(any_queue, "b", ttl_s=60, engine_first=EngineFirst()), release_rows=True
    )
    engine = Forgetful()
    engine.lost = run.abandon

    await run.run(engine)

    assert engine.ran == [[0, 1, 2, 3], [0, 1], [0]]


async def test_an_engine_in_a_process_that_ran_out_of_memory_lives() -> None:
    host = a_host(FakeCurve())
    await host.start()
    pid = host.pid
    for rows in ([a_row(0), a_row(1, metadata={"fake": "oom"})], [a_row(0), a_row(1, metadata={"fake_oom_over": 1})]):
        with pytest.raises(OutOfMemory):
            await told(host, *rows)
        assert list(texts(await told(host, a_row(7)))) == [7]
    assert host.pid == pid
    await host.stop()


class OutOfMemoryError(RuntimeError):
    """Named as torch's."""


@pytest.mark.parametrize(
    ("error", "short"),
    [
        (MemoryError(), True),
        (OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), True),
        (RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"), True),
        (RuntimeError("[enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: can't allocate memory"), True),
        (RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 1 bytes"), True),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), False),
        (ValueError("the prompt says: out of memory"), False),
    ],
)
def test_what_says_that_memory_was_short_is_told_from_every_other_failure(error: Exception, short: bool) -> None:
    assert ran_out_of_memory(error) is short


def test_the_limit_falls_to_what_went_through_and_is_doubled_after_batches_that_fill_it() -> None:
    limit = BatchLimit(32)
    assert limit.learn(ran_out=True, too_heavy=False, together=5)
    assert limit.now == 5
    for _ in range(100):
        limit.learn(ran_out=False, too_heavy=False, together=2)
    assert limit.now == 5, "light batches say nothing of heavier ones"
    seen = []
    for _ in range(3 * GROW_AFTER):
        limit.learn(ran_out=False, too_heavy=False, together=limit.now)
        seen.append(limit.now)
    assert sorted(set(seen)) == [5, 10, 20, 32]
    assert limit.now == 32


def test_the_limit_falls_to_half_at_most_never_below_one_and_not_for_a_row_that_is_too_heavy_alone() -> None:
    limit = BatchLimit(8)
    assert not limit.learn(ran_out=True, too_heavy=True, together=4)
    limit.learn(ran_out=True, too_heavy=False, together=7)
    assert limit.now == 4
    for _ in range(5):
        limit.learn(ran_out=True, too_heavy=False, together=0)
    assert limit.now == 1
    assert BatchLimit(1).learn(ran_out=True, too_heavy=False, together=0) is False
