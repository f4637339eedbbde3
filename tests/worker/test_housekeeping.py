"""When a worker takes back others' batches, and when it leaves them alone: by a clock that the test moves."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from busload_shared.errors import BusloadUnavailable
from busload_worker import housekeeping
from busload_worker.housekeeping import AUDIT_EVERY_S, Housekeeper
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

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.away = False

    def __getattr__(self, name: str) -> Any:
        async def call(*_: Any, **__: Any) -> Any:
            if self.away:
                raise BusloadUnavailable("Redis does not answer")
            self.asked[name] += 1
            return {"heartbeat": 1, "audit": 0}.get(name, [])

        return call


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(housekeeping, "time", clock)
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
