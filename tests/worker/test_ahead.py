"""A whole batch that waits is claimed while the last one runs; nothing is sealed early, hoarded or lost for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.waiting import wait_until
from tests.worker.conftest import Depot

Make = Callable[..., dict[str, Any]]


async def until_in_flight(depot: Depot, rows: int) -> None:
    async def there() -> bool:
        return (await depot.queue.info()).inflight == rows

    await wait_until(there, what=f"{rows} rows are in flight")


async def test_a_whole_batch_that_waits_is_claimed_while_one_runs_and_part_of_one_is_not(
    depot: Depot, request_of: Make
) -> None:
    await depot.start(max_batch_size=4, fake_overhead_ms=1500, drain_s=0.2)
    await until_alone(depot)
    await depot.push(*[request_of(f"r{i}") for i in range(11)])
    await until_in_flight(depot, 8)

    info = await depot.queue.info()

    assert (info.waiting, info.leases) == (3, 2)


async def until_alone(depot: Depot) -> None:
    """A worker knows by its first heartbeats whether it is the only one."""

    async def listed() -> bool:
        return len((await depot.queue.info()).workers) == 1

    await wait_until(listed, what="the worker is on the list")


async def test_what_was_claimed_ahead_tells_true_times(depot: Depot, request_of: Make) -> None:
    await depot.start(max_batch_size=2, fake_overhead_ms=400)
    await until_alone(depot)
    await depot.push(*[request_of(f"r{i}") for i in range(4)])

    first, second = await depot.results("r0", "r2")

    assert first.timing is not None
    assert second.timing is not None
    assert second.timing.started_ms is not None
    assert second.timing.claimed_ms is not None
    assert second.timing.claimed_ms < first.timing.finished_ms
    assert second.timing.started_ms >= first.timing.finished_ms
    assert second.timing.waited_ms >= 400
    assert second.timing.finished_ms - second.timing.started_ms >= 400


async def test_a_stop_hands_back_what_was_claimed_ahead(depot: Depot, request_of: Make) -> None:
    await depot.start(max_batch_size=2, fake_overhead_ms=700)
    await until_alone(depot)
    await depot.push(*[request_of(f"r{i}") for i in range(4)])
    await until_in_flight(depot, 4)
    await depot.stop_workers()

    states = [found.state for found in await depot.queue.status([f"r{i}" for i in range(4)])]

    assert states == ["answered", "answered", "waiting", "waiting"]
    assert (await depot.queue.info()).leases == 0


async def test_an_engine_that_dies_does_not_keep_what_was_claimed_ahead(depot: Depot, request_of: Make) -> None:
    worker = await depot.start(max_batch_size=2, fake_overhead_ms=300)
    await until_alone(depot)
    await depot.push(
        request_of("bad", metadata={"fake": "crash"}), *[request_of(name) for name in ("good", "next", "last")]
    )

    results = await depot.results("good", "next", "last", "bad")

    assert [r.status for r in results] == ["succeeded"] * 3 + ["failed"]
    assert {r.attempts for r in results[1:3]} == {1}
    assert worker.vitals.leases_lost == 0


async def test_a_busy_worker_leaves_a_waiting_batch_to_an_idle_one(depot: Depot, request_of: Make) -> None:
    await depot.start(max_batch_size=4, fake_overhead_ms=500, worker_name="one")
    await depot.start(max_batch_size=4, fake_overhead_ms=500, worker_name="two")

    async def both_know() -> bool:
        return not any(worker.vitals.alone for worker in depot.workers)

    await wait_until(both_know, what="both know of each other")
    await depot.push(*[request_of(f"r{i}") for i in range(8)])

    results = await depot.results(*[f"r{i}" for i in range(8)])

    assert {r.worker for r in results} == {"one", "two"}


async def test_a_batch_that_fills_while_another_runs_is_claimed_before_its_end(depot: Depot, request_of: Make) -> None:
    """Nobody waits when the first batch leaves; the next fills while it runs, not before the fourth has come."""
    await depot.start(max_batch_size=4, max_wait_ms=20, fake_overhead_ms=3000, drain_s=0.2)
    await until_alone(depot)
    await depot.push(request_of("first"))
    await until_in_flight(depot, 1)
    await depot.push(*[request_of(f"r{i}") for i in range(3)])
    assert (await depot.queue.info()).waiting == 3
    await depot.push(request_of("last"))
    await until_in_flight(depot, 5)


async def test_who_was_claimed_ahead_and_cannot_end_in_time_is_told_at_its_deadline_too(
    depot: Depot, request_of: Make
) -> None:
    worker = await depot.start(max_batch_size=2, fake_per_token_ms=20)
    await until_alone(depot)
    await depot.push(request_of("first", max_tokens=5), request_of("second", max_tokens=5))
    await depot.results("first", "second")
    assert worker.vitals.pace_ms > 15
    long = [request_of(f"r{i}", max_tokens=250) for i in range(2)]
    await depot.push(*long, request_of("hopeless", max_tokens=2000, min_tokens=1000, ttl_s=1), request_of("patient"))
    await until_in_flight(depot, 4)

    late = await depot.result("hopeless")
    running, _ = await depot.queue.status(["r0", "patient"])

    assert late.status == "expired"
    assert running.state == "running", "it was told while the batch before it ran"


async def test_who_was_claimed_ahead_is_expired_at_its_deadline_and_not_when_its_turn_comes(
    depot: Depot, request_of: Make
) -> None:
    await depot.start(max_batch_size=2, fake_overhead_ms=30_000, drain_s=0.1)
    await until_alone(depot)
    await depot.push(*[request_of(f"r{i}") for i in range(2)], request_of("late", ttl_s=0.5), request_of("patient"))
    await until_in_flight(depot, 4)

    result = await depot.result("late")

    assert (result.status, result.attempts) == ("expired", 0)
    assert (await depot.queue.info()).inflight == 3
