"""When a worker takes back others' batches, and when it leaves them alone: by a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from tests.waiting import wait_until

from busload_shared.errors import BusloadUnavailable
from busload_shared.keys import Keys
from busload_worker import caretaker, housekeeping
from busload_worker.caretaker import Caretaker
from busload_worker.chores import AUDIT_EVERY_S, TICK_S
from busload_worker.ending import end
from busload_worker.housekeeping import Housekeeper
from busload_worker.settings import Settings
from busload_worker.vitals import Vitals

LEASE_S = 10.0


class Clock:
    """Stands until the test moves it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


class CountingQueue:
    """A queue without Redis: counts what it is asked; `away` makes every call fail."""

    def __init__(self, *, workers: int = 1) -> None:
        self.asked: Counter[str] = Counter()
        self.away = False
        self.keys = Keys("busload:test")
        self.parts = (self,)
        self.hangs: asyncio.Event | None = None
        self._workers = workers

    def __getattr__(self, name: str) -> Any:
        async def call(*_: Any, **__: Any) -> Any:
            if self.away:
                raise BusloadUnavailable("Redis does not answer")
            if self.hangs is not None:
                await self.hangs.wait()
            self.asked[name] += 1
            return {"heartbeat": self._workers, "audit": 0}.get(name, [])

        return call


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (housekeeping, caretaker):
        monkeypatch.setattr(module, "time", clock)
    return clock


async def nothing() -> None:
    """For what the housekeeper calls besides the queue."""


def keeper(queue: CountingQueue, *, quiet_s: float = 0.0) -> Housekeeper:
    settings = Settings(engine="fake", lease_s=LEASE_S)
    others = {name: nothing for name in ("unwanted", "share")}
    return Housekeeper(queue, settings, Vitals(), quiet_s=quiet_s, **others)  # type: ignore[arg-type]


async def test_lapsed_batches_are_looked_for_at_every_tick(clock: Clock) -> None:
    queue = CountingQueue()
    housekeeper = keeper(queue)
    for _ in range(3):
        await housekeeper.tick()
    assert queue.asked["reclaim"] == 3


async def test_after_an_outage_nothing_is_taken_back_for_one_lease(clock: Clock) -> None:
    """Nobody could renew while Redis was away: that is no sign of death."""
    queue = CountingQueue()
    housekeeper = keeper(queue)
    queue.away = True
    await housekeeper.tick()
    queue.away = False
    clock.now += 60
    await housekeeper.tick()
    clock.now += LEASE_S - 0.1
    await housekeeper.tick()
    assert queue.asked["reclaim"] == 0
    assert queue.asked["heartbeat"] == 2
    clock.now += 0.2
    await housekeeper.tick()
    assert queue.asked["reclaim"] == 1


async def test_a_redis_that_has_just_come_up_is_given_what_is_left_of_a_lease(clock: Clock) -> None:
    queue = CountingQueue()
    housekeeper = keeper(queue, quiet_s=4)
    await housekeeper.tick()
    clock.now += 3.9
    await housekeeper.tick()
    assert queue.asked["reclaim"] == 0
    clock.now += 0.2
    await housekeeper.tick()
    assert queue.asked["reclaim"] == 1


async def test_an_audit_is_made_now_and_then(clock: Clock) -> None:
    queue = CountingQueue()
    housekeeper = keeper(queue)
    for _ in range(8):
        clock.now += AUDIT_EVERY_S / 4
        await housekeeper.tick()
    assert queue.asked["audit"] == 2


async def test_among_many_workers_a_heartbeat_with_nothing_new_waits_and_news_does_not(clock: Clock) -> None:
    queue = CountingQueue(workers=400)
    housekeeper = keeper(queue)
    for _ in range(4):
        await housekeeper.tick()
        clock.now += 0.5
    assert queue.asked["heartbeat"] == 1
    housekeeper._vitals.state = "draining"
    await housekeeper.tick()
    assert queue.asked["heartbeat"] == 2
    clock.now += 2
    await housekeeper.tick()
    assert queue.asked["heartbeat"] == 3


async def test_a_worker_among_many_makes_its_rounds_less_often() -> None:
    vitals = Vitals()
    alone = Caretaker(CountingQueue(), Settings(engine="fake", lease_s=LEASE_S), vitals, quiet_s=0)  # type: ignore[arg-type]
    assert alone.next_round_s() == TICK_S
    vitals.workers = 1000
    assert LEASE_S / 8 < alone.next_round_s() <= LEASE_S / 4


async def test_an_outage_of_one_partition_is_no_outage_of_the_others(clock: Clock) -> None:
    queue, other = CountingQueue(), CountingQueue()
    queue.parts = (queue, other)  # type: ignore[assignment]
    housekeeper = keeper(queue)
    other.away = True
    await housekeeper.tick()
    other.away = False
    await housekeeper.tick()
    assert (queue.asked["reclaim"], other.asked["reclaim"]) == (2, 0)
    clock.now += LEASE_S + 0.1
    await housekeeper.tick()
    assert (queue.asked["reclaim"], other.asked["reclaim"]) == (3, 1)


async def test_a_partition_that_hangs_holds_up_nobody_else() -> None:
    queue, other = CountingQueue(), CountingQueue()
    queue.parts = (queue, other)  # type: ignore[assignment]
    other.hangs = asyncio.Event()
    housekeeper = keeper(queue)
    task = asyncio.create_task(housekeeper.run())

    async def thrice() -> bool:
        return queue.asked["heartbeat"] > 2 and queue.asked["reclaim"] > 2

    await wait_until(thrice, what="the others go on")
    assert other.asked["reclaim"] == 0
    await end([task])
