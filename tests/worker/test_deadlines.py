"""Deadlines while the engine is busy, while a row runs, and before a hopeless row begins."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tests.waiting import wait_until
from tests.worker.conftest import Depot

Make = Callable[..., dict[str, Any]]


async def test_a_waiting_request_is_expired_though_the_engine_is_busy_for_much_longer(
    depot: Depot, request_of: Make
) -> None:
    """B22."""
    worker = await depot.start(fake_overhead_ms=30_000, max_batch_size=1, drain_s=0.1)
    await depot.push(request_of("long"))
    await wait_until(lambda: _running(worker), what="the engine is busy")
    await depot.push(request_of("late", ttl_s=0.3), request_of("patient"))
    began = time.monotonic()

    result = await depot.result("late")

    assert time.monotonic() - began < 15, "long before the run ends"
    assert (result.status, result.attempts) == ("expired", 0)
    assert await depot.redis.get(depot.queue.keys.result("long")) is None
    assert [status.state for status in await depot.queue.status(["late", "patient"])] == ["answered", "waiting"]


async def _running(worker: Any) -> bool:
    return worker.vitals.batch is not None


async def test_a_running_row_is_stopped_at_its_deadline_and_costs_its_neighbours_nothing(
    depot: Depot, request_of: Make
) -> None:
    worker = await depot.start(fake_per_token_ms=50, max_batch_size=2)
    await depot.push(request_of("endless", max_tokens=2000, ttl_s=1), request_of("short", max_tokens=4))

    late, fine = await depot.results("endless", "short")
    await depot.settled()

    assert (late.status, fine.status) == ("expired", "succeeded")
    assert late.error is not None
    assert "while it ran" in late.error.message
    assert worker.vitals.batches_done == 1, "the engine was free again: the batch ended with it"


async def test_what_cannot_end_by_its_deadline_is_not_begun(depot: Depot, request_of: Make) -> None:
    worker = await depot.start(fake_per_token_ms=20, max_batch_size=1)
    await depot.push(request_of("first", max_tokens=10))
    await depot.result("first")
    assert 15 < worker.vitals.pace_ms < 200
    await depot.push(request_of("hopeless", max_tokens=2000, min_tokens=1000, ttl_s=3), request_of("fine", ttl_s=60))

    hopeless, fine = await depot.results("hopeless", "fine")

    assert hopeless.status == "expired"
    assert hopeless.error is not None
    assert "not begun" in hopeless.error.message
    assert fine.status == "succeeded"


async def test_workers_tell_how_long_their_batches_take(depot: Depot, request_of: Make) -> None:
    worker = await depot.start(fake_overhead_ms=20, fake_per_token_ms=5, max_batch_size=1)
    for i in range(10):
        await depot.push(request_of(f"r{i}", max_tokens=2 + 4 * i))
        await depot.result(f"r{i}")
    curve = worker.vitals.fit.curve()

    assert curve is not None
    assert curve.predict_ms(prompt_tokens=2, longest=20, new_tokens=20) > curve.predict_ms(
        prompt_tokens=2, longest=5, new_tokens=5
    )

    async def told() -> bool:
        return (await depot.queue.info()).workers[0].curve is not None

    await wait_until(told, what="the heartbeat carries the curve")
