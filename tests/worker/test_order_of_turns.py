"""When a batch has ended and somebody waits, the next is asked for first, and its answers are sent meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest
from tests.worker.conftest import Depot
from tests.worker.test_ahead import until_alone, until_in_flight

from busload_shared.queue import Queue
from busload_shared.replies import Claim, Delivery
from busload_worker.ahead import Ahead, RunEnd
from busload_worker.boarding import NEVER_MS, Boarding
from busload_worker.engine_first import EngineFirst
from busload_worker.leases import LeaseKeeper
from busload_worker.outbox import Outbox, packed
from busload_worker.settings import Settings
from busload_worker.vitals import Vitals
from busload_worker.weight import BatchLimit
from busload_worker.worker import Worker

Make = Callable[..., dict[str, Any]]

ANSWER = Delivery(0, "r0", "succeeded", "", b"{}")


class Desk:
    """Stands for boarding and for the queue, and notes what is asked of them."""

    def __init__(self, *, waiting: bool) -> None:
        self.waiting = waiting
        self.asked: list[str] = []

    def saw_waiting(self) -> bool:
        return self.waiting

    async def due_claim(self, stop: asyncio.Event) -> Claim | None:
        self.asked.append("claim")
        return None

    async def deliver(self, batch: str, rows: list[Delivery], *, ttl_s: float) -> list[bool]:
        self.asked.append("deliver")
        return [True] * len(rows)


async def asked_at_the_end(settings: Settings, *, waiting: bool, well: bool = True) -> list[str]:
    """What is asked, and in which order, when a batch ends and its last answer is posted in the same turn."""
    desk, vitals = Desk(waiting=waiting), Vitals(workers=2)
    boarding, queue = cast(Boarding, desk), cast(Queue, desk)
    leases, limit = cast(LeaseKeeper, None), BatchLimit(4)
    ahead = Ahead(queue, settings, boarding=boarding, leases=leases, limit=limit, vitals=vitals)
    outbox, ended = Outbox(queue, "b", ttl_s=60, engine_first=ahead.engine_first), RunEnd()
    fetch = asyncio.create_task(ahead.fetch(Claim("b", 0, 0, 0, "timeout", ()), ended=ended, stop=asyncio.Event()))
    await asyncio.sleep(0.01)
    outbox.post([packed(ANSWER)])
    await ahead.engine_free(ended, well=well)
    await fetch
    assert await ahead.take() is None
    await outbox.flushed()
    return desk.asked


async def test_who_waits_is_asked_for_before_the_last_answers_are_sent(depot: Depot) -> None:
    assert await asked_at_the_end(depot.settings(), waiting=True) == ["claim", "deliver"]


async def test_where_nobody_waits_the_answers_are_sent_and_nothing_is_asked(depot: Depot) -> None:
    assert await asked_at_the_end(depot.settings(), waiting=False) == ["deliver"]


async def test_an_engine_that_is_not_free_again_is_given_nothing_more(depot: Depot) -> None:
    assert await asked_at_the_end(depot.settings(), waiting=True, well=False) == ["deliver"]


def noted_from(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the worker does from now on, as it begins it: claim, run, deliver. A look for whole batches is none."""
    queue, engine, done = worker._queue, worker._keeper.engine, list[str]()
    monkeypatch.setattr("busload_worker.engine_first.LONGEST_S", 10)  # however slow this machine is

    def note(owner: object, what: str) -> None:
        call = getattr(owner, what)

        def begin(*args: Any, **named: Any) -> Any:
            if named.get("max_wait_ms") != NEVER_MS:
                done.append(what)
            return call(*args, **named)

        monkeypatch.setattr(owner, what, begin)

    note(queue, "claim")
    note(queue, "deliver")
    note(engine, "run")
    return done


@pytest.mark.parametrize("wait", [1, "auto"])
async def test_the_engine_gets_who_waits_before_the_last_answers_are_packed(
    depot: Depot, request_of: Make, monkeypatch: pytest.MonkeyPatch, wait: Any
) -> None:
    worker = await depot.start(max_wait_ms=wait, fake_overhead_ms=1000)
    await until_alone(depot)
    await depot.push(request_of("a"))
    await until_in_flight(depot, 1)
    done = noted_from(worker, monkeypatch)
    await depot.push(request_of("b"))
    await depot.results("a", "b")

    asked = ["claim"] if wait == 1 else ["claim", "claim"]
    assert done[: len(asked) + 2] == [*asked, "run", "deliver"]


async def test_the_engine_gets_what_was_claimed_ahead_before_the_last_answers_are_packed(
    depot: Depot, request_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = await depot.start(max_batch_size=2, fake_overhead_ms=1000)
    await until_alone(depot)
    await depot.push(*[request_of(f"r{i}") for i in range(4)])
    await until_in_flight(depot, 4)
    done = noted_from(worker, monkeypatch)
    await depot.results(*[f"r{i}" for i in range(4)])

    assert done[:2] == ["run", "deliver"]


async def test_after_memory_ran_out_nobody_is_claimed_by_the_limit_of_before(depot: Depot, request_of: Make) -> None:
    await depot.start(max_batch_size=8, fake_overhead_ms=200)
    await until_alone(depot)
    await depot.push(*[request_of(f"r{i}", metadata={"fake_oom_over": 2}) for i in range(8)])
    await until_in_flight(depot, 8)
    await depot.push(*[request_of(f"later{i}") for i in range(5)])

    later = await depot.results(*[f"later{i}" for i in range(5)])

    assert max(result.batch.size for result in later if result.batch) == 2


async def test_answers_leave_in_the_first_turn_or_once_the_engine_is_seen_to() -> None:
    desk, engine_first = Desk(waiting=False), EngineFirst()
    outbox = Outbox(cast(Queue, desk), "b", ttl_s=60, engine_first=engine_first)
    outbox.post([packed(ANSWER)])
    await asyncio.sleep(0)
    assert desk.asked == ["deliver"]

    await outbox.flushed()
    engine_first.begin()
    outbox.post([packed(ANSWER)])
    await asyncio.sleep(0)
    assert desk.asked == ["deliver"]
    engine_first.end()
    await outbox.flushed()
    assert desk.asked == ["deliver", "deliver"]


async def test_answers_do_not_wait_long_for_an_engine_that_is_never_seen_to() -> None:
    engine_first = EngineFirst()
    engine_first.begin()
    async with asyncio.timeout(10):
        await engine_first.over()
