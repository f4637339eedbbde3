"""A lone request on an idle worker boards at once, the worker says why, and what it has learned can be looked at."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from tests.waiting import wait_until
from tests.worker.conftest import Depot

from busload_shared.replies import NotYet, WorkerInfo
from busload_worker.hazards import Hazards
from busload_worker.waiting_rule import Decision

Make = Callable[..., dict[str, Any]]


async def test_a_lone_request_boards_at_the_first_look_and_within_5_ms(
    depot: Depot, request_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the machine does: no decision says to wait. By the worker's own clock the quickest of them take under
    5 ms from their arrival to their run, where the cap would let them wait a second."""
    worker = await depot.start(max_wait_ms="auto", wait_cap_ms=1000, fake_overhead_ms=20)
    wait, said = worker._learner.wait, []
    assert wait is not None
    decide = wait.decide

    def watched(look: NotYet, *, size: int) -> Decision:
        said.append(decide(look, size=size))
        return said[-1]

    monkeypatch.setattr(wait, "decide", watched)
    waited_ms = []
    for i in range(25):
        await depot.push(request_of(f"r{i}"))
        timing = (await depot.result(f"r{i}")).timing
        assert timing is not None
        waited_ms.append(timing.waited_ms)
    assert len(said) == 25
    assert not any(decision.wait for decision in said)
    assert sorted(waited_ms)[5] <= 5, waited_ms


async def test_every_look_says_in_one_line_why_it_waits_or_leaves(
    depot: Depot, request_of: Make, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "busload.boarding")
    await depot.start(max_wait_ms="auto", fake_overhead_ms=2)
    await depot.push(request_of("a"))
    await depot.result("a")
    said = [record.getMessage() for record in caplog.records if record.name == "busload.boarding"]
    assert said
    for line in said:
        assert line.startswith(("leaves: ", "waits: "))
        assert "\n" not in line


@pytest.mark.parametrize("u_ms", [0.25, 7.9, 8.0, 8.1, 16.0])
def test_who_always_comes_after_the_same_time_is_foreseen(u_ms: float) -> None:
    """At the edge of a bin as well: times in whole ms often are."""
    hazards = Hazards()
    for _ in range(50):
        hazards.arrival(u_ms, "completion")
    assert sum(stretch.arrivals for stretch in hazards.ahead(0.0, "completion")) > 40


async def test_what_was_learned_can_be_looked_at_from_outside(depot: Depot, request_of: Make) -> None:
    """Lengths, the curve, and when requests come, by anybody with the queue."""
    await depot.start(max_wait_ms="auto", order="length", fake_overhead_ms=2, fake_per_token_ms=0.1)
    for i in range(10):
        await depot.push(request_of(f"r{i}", route="summary"))
        await depot.result(f"r{i}")

    async def told() -> WorkerInfo | None:
        workers = (await depot.queue.info()).workers
        known = bool(workers and workers[0].curve and workers[0].wait and workers[0].wait.after_batch)
        return workers[0] if known and "route:summary" in await depot.queue.lengths() else None

    await wait_until(told, what="the heartbeat tells the curve, the lengths and the learned wait")
    worker = await told()
    assert worker is not None
    assert worker.wait is not None
    assert worker.wait.reason.startswith("leaves: ")
    table = worker.wait.after_arrival + worker.wait.after_batch
    assert sum(line.arrivals for line in table) > 5
    assert all(line.to_ms is None or line.from_ms < line.to_ms for line in table)
