"""The learned wait: none for a lone request, one for those who come in clumps; and it can say why."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.worker.conftest import Depot

from busload_shared.result import Result
from busload_worker.waiting_rule import Decision

Make = Callable[..., dict[str, Any]]


def waited(result: Result) -> float:
    assert result.timing is not None
    return result.timing.waited_ms


async def test_a_lone_request_does_not_wait(depot: Depot, request_of: Make) -> None:
    worker = await depot.start(max_wait_ms="auto", fake_overhead_ms=2)
    for i in range(12):
        await depot.push(request_of(f"r{i}"))
        result = await depot.result(f"r{i}")
        assert waited(result) < 100, "a fixed wait would be a second"
    assert worker._learner.wait is not None
    assert worker._learner.wait.reason.startswith("leaves: ")


async def test_those_who_come_in_clumps_are_waited_for(depot: Depot, request_of: Make) -> None:
    """Four come 8 ms apart, again and again; a batch takes 200 ms whoever rides. Without a wait the first rides alone.
    Through the script each has its own stamp; raw ones that come while a batch runs are stamped together."""
    worker = await depot.start(max_wait_ms="auto", fake_overhead_ms=200, max_batch_size=8)
    sizes = []
    for clump in range(16):
        for i in range(4):
            name = f"r{clump}-{i}"
            await depot.queue.submit([(name, json.dumps(request_of(name)).encode())], limit=100)
            await asyncio.sleep(0.008)
        results = await depot.results(*(f"r{clump}-{i}" for i in range(4)))
        sizes.append([result.batch.size for result in results if result.batch])
        await asyncio.sleep(0.25)

    first_ones = [clump[0] for clump in sizes]
    assert first_ones[0] == 1, "nothing is known yet"
    assert first_ones[-1] > 1, f"the first of a clump waits for the others now: {sizes}"
    assert worker._learner.wait is not None
    assert worker._learner.wait.hazards.table("arrival")


async def test_no_learned_wait_is_longer_than_its_cap(
    depot: Depot, request_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = await depot.start(max_wait_ms="auto", wait_cap_ms=200, fake_overhead_ms=5)
    assert worker._settings.longest_wait_ms == 200
    assert worker._learner.wait is not None
    monkeypatch.setattr(worker._learner.wait, "decide", lambda *_, **__: Decision(True, 1e9, "waits for ever"))
    await depot.push(request_of("a"))
    assert 190 <= waited(await depot.result("a")) < 5000
