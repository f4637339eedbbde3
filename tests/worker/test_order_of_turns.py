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
from busload_worker.leases import LeaseKeeper
from busload_worker.outbox import Outbox
from busload_worker.settings import Settings
from busload_worker.vitals import Vitals
from busload_worker.weight import BatchLimit

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
    outbox, ended = Outbox(queue, "b", ttl_s=60, gives_way=desk.saw_waiting), RunEnd()
    fetch = asyncio.create_task(ahead.fetch(Claim("b", 0, 0, 0, "timeout", ()), ended=ended, stop=asyncio.Event()))
    await asyncio.sleep(0.01)
    outbox.post([ANSWER])
    ended.well = well
    ended.set()
    await asyncio.gather(fetch, outbox.flushed())
    return desk.asked


async def test_who_waits_is_asked_for_before_the_last_answers_are_sent(depot: Depot) -> None:
    assert await asked_at_the_end(depot.settings(), waiting=True) == ["claim", "deliver"]


async def test_where_nobody_waits_the_answers_are_sent_and_nothing_is_asked(depot: Depot) -> None:
    assert await asked_at_the_end(depot.settings(), waiting=False) == ["deliver"]


async def test_an_engine_that_is_not_free_again_is_given_nothing_more(depot: Depot) -> None:
    assert await asked_at_the_end(depot.settings(), waiting=True, well=False) == ["deliver"]


@pytest.mark.parametrize("wait", [1, "auto"])
async def test_a_fixed_wait_and_a_learned_one_are_asked_for_first(
    depot: Depot, request_of: Make, monkeypatch: pytest.MonkeyPatch, wait: Any
) -> None:
    worker = await depot.start(max_wait_ms=wait, fake_overhead_ms=300)
    await until_alone(depot)
    queue, asked = worker._queue, list[str]()

    def noted(what: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def ask(*args: Any, **named: Any) -> Any:
            if named.get("max_wait_ms") != NEVER_MS:
                asked.append(what)
            return call(*args, **named)

        return ask

    for what in ("claim", "deliver"):
        monkeypatch.setattr(queue, what, noted(what, getattr(queue, what)))
    await depot.push(request_of("a"))
    await until_in_flight(depot, 1)
    asked.clear()
    await depot.push(request_of("b"))
    await depot.results("a", "b")

    assert asked[:2] == ["claim", "deliver"]


async def test_after_memory_ran_out_nobody_is_claimed_by_the_limit_of_before(depot: Depot, request_of: Make) -> None:
    await depot.start(max_batch_size=8, fake_overhead_ms=200)
    await until_alone(depot)
    await depot.push(*[request_of(f"r{i}", metadata={"fake_oom_over": 2}) for i in range(8)])
    await until_in_flight(depot, 8)
    await depot.push(*[request_of(f"later{i}") for i in range(5)])

    later = await depot.results(*[f"later{i}" for i in range(5)])

    assert max(result.batch.size for result in later if result.batch) == 2


@pytest.mark.parametrize(("gives_way", "turns"), [(False, 1), (True, 2)])
async def test_answers_leave_in_the_first_turn_or_behind_a_claim(gives_way: bool, turns: int) -> None:
    desk = Desk(waiting=gives_way)
    outbox = Outbox(cast(Queue, desk), "b", ttl_s=60, gives_way=desk.saw_waiting)
    outbox.post([ANSWER])
    needed = 0
    while not desk.asked:
        await asyncio.sleep(0)
        needed += 1

    assert needed == turns
