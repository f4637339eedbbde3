"""When a batch leaves and who is on it, with a worker that runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tests.worker.conftest import Depot

Make = Callable[..., dict[str, Any]]


async def test_a_lone_request_leaves_after_the_wait_and_a_second_rides_along(depot: Depot, request_of: Make) -> None:
    await depot.start(max_wait_ms=500)
    await depot.push(request_of("a"))
    await asyncio.sleep(0.1)
    await depot.push(request_of("b"))

    first, second = await depot.results("a", "b")

    assert first.batch is not None
    assert second.batch is not None
    assert first.timing is not None
    assert (first.batch.id, first.batch.size, first.batch.trigger) == (second.batch.id, 2, "timeout")
    assert 500 <= first.timing.waited_ms < 1000


async def test_a_full_batch_leaves_at_once_in_the_middle_of_the_wait(depot: Depot, request_of: Make) -> None:
    await depot.start(max_batch_size=4, max_wait_ms=10_000)
    for name in "abcd":
        await depot.push(request_of(name))

    results = await depot.results(*"abcd")

    assert {r.batch.trigger for r in results if r.batch} == {"full"}
    assert max(r.timing.waited_ms for r in results if r.timing) < 5000


async def test_who_waited_while_the_engine_ran_boards_without_a_new_wait(depot: Depot, request_of: Make) -> None:
    await depot.start(max_wait_ms=600, fake_overhead_ms=1500)
    await depot.push(request_of("a"))
    await asyncio.sleep(0.9)
    await depot.push(request_of("b"))

    first, second = await depot.results("a", "b")

    assert first.timing is not None
    assert second.timing is not None
    assert second.timing.claimed_ms is not None
    assert second.batch is not None
    assert second.batch.trigger == "timeout"
    assert second.timing.claimed_ms - first.timing.finished_ms < 400  # a new wait would be 600 and more


async def test_nothing_is_sealed_while_the_engine_is_busy(depot: Depot, request_of: Make) -> None:
    await depot.start(max_batch_size=16, max_wait_ms=20, fake_overhead_ms=500)
    names = [f"r{i}" for i in range(60)]
    for name in names:
        await depot.push(request_of(name))
        await asyncio.sleep(0.01)

    batches = {r.batch.id for r in await depot.results(*names) if r.batch}

    assert len(batches) <= 6


async def test_no_batch_is_over_the_cap_and_all_ride_in_order(depot: Depot, request_of: Make) -> None:
    names = [f"r{i}" for i in range(50)]
    await depot.push(*[request_of(name) for name in names])
    await depot.start(max_batch_size=8)

    results = await depot.results(*names)

    assert [r.batch.size for r in results if r.batch] == [8] * 48 + [2] * 2
    starts = [r.timing.claimed_ms for r in results if r.timing]
    assert starts == sorted(starts)
    assert [r.batch.position for r in results if r.batch][:8] == list(range(8))


async def test_a_short_row_is_answered_before_the_long_one_of_its_batch_ends(depot: Depot, request_of: Make) -> None:
    await depot.start(max_batch_size=2, max_wait_ms=5000, fake_per_token_ms=20)
    await depot.push(request_of("short", max_tokens=2), request_of("long", max_tokens=50))

    short = await depot.result("short")
    running = (await depot.queue.status(["long"]))[0]
    long = await depot.result("long")

    assert running.state == "running"
    assert short.batch is not None
    assert long.batch is not None
    assert short.batch.id == long.batch.id
    assert short.timing is not None
    assert short.timing.held_ms == 0


async def test_in_batch_release_all_are_answered_together_and_say_how_long_they_were_held(
    depot: Depot, request_of: Make
) -> None:
    await depot.start(max_batch_size=2, max_wait_ms=5000, fake_per_token_ms=20, release="batch")
    await depot.push(request_of("short", max_tokens=2), request_of("long", max_tokens=50))

    await depot.result("short")
    short, long = await depot.results("short", "long")

    assert short.timing is not None
    assert long.timing is not None
    assert abs(short.timing.held_ms - 960) < 400
    assert long.timing.held_ms < 100


async def test_killed_connections_do_not_stop_a_batch_that_fills(depot: Depot, request_of: Make) -> None:
    await depot.start(max_wait_ms=300)
    await depot.push(request_of("a"))
    await depot.redis.client_kill_filter(_type="normal", skipme=True)

    assert (await depot.result("a")).status == "succeeded"


async def test_killed_connections_do_not_stop_an_idle_worker(depot: Depot, request_of: Make) -> None:
    await depot.start()
    await depot.redis.client_kill_filter(_type="normal", skipme=True)
    await depot.push(request_of("a"))

    assert (await depot.result("a")).status == "succeeded"
