"""Parked tickets: each is claimed by one, begun by one, settled once, and found again when somebody died."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.conftest import START_MS

from busload_shared.parking import Parking, Ticket
from busload_shared.queue import Queue

TICKET = Ticket("celery:t", "celery:t:0")
RETRY = Ticket("celery:t", "celery:t:1")
LOOK_MS, LEASE_MS = 10_000.0, 1_000.0


@pytest.fixture
def parking(queue: Queue) -> Parking:
    parking = Parking(queue.redis, queue.keys, patience_s=0.0)
    parking.now_ms = START_MS
    return parking


@pytest.fixture
def later(parking: Parking) -> Callable[[float], None]:
    def step(ms: float) -> None:
        assert parking.now_ms is not None
        parking.now_ms += ms

    return step


async def park(parking: Parking, ticket: Ticket = TICKET, *, again: bool = False) -> bool:
    return await parking.park(ticket, b"message", look_ms=LOOK_MS, ttl_s=3600, again=again)


async def due(parking: Parking) -> list[Ticket]:
    return await parking.due(at_most=10, look_ms=LOOK_MS)


async def test_of_two_who_claim_one_gets_the_message(parking: Parking) -> None:
    assert await park(parking)
    assert await parking.claim([TICKET], lease_ms=LEASE_MS) == [b"message"]
    assert await parking.claim([TICKET, RETRY], lease_ms=LEASE_MS) == [b"", b""]
    assert await parking.counts() == (0, 1)


async def test_a_copy_of_the_first_message_does_not_take_back_what_is_landing(parking: Parking) -> None:
    await park(parking)
    assert await park(parking), "parked twice is parked"
    await parking.claim([TICKET], lease_ms=LEASE_MS)
    assert not await park(parking)
    assert await park(parking, again=True), "its own run may park it again"
    assert await parking.counts() == (1, 0)


async def test_one_run_begins_until_its_lease_ends(parking: Parking, later: Callable[[float], None]) -> None:
    await park(parking)
    assert await parking.begin(TICKET, "r1", lease_ms=LEASE_MS) == 0, "nobody claimed it"
    await parking.claim([TICKET], lease_ms=LEASE_MS)
    assert await parking.begin(RETRY, "r1", lease_ms=LEASE_MS) == 0, "it is for another request"
    assert await parking.begin(TICKET, "r1", lease_ms=LEASE_MS) == 1
    assert await parking.begin(TICKET, "r2", lease_ms=LEASE_MS) == 0
    later(LEASE_MS + 1)
    assert await parking.begin(TICKET, "r2", lease_ms=LEASE_MS) == 2
    assert await parking.settle(*TICKET)
    assert await parking.begin(TICKET, "r2", lease_ms=LEASE_MS) == 0
    assert not await parking.settle(*TICKET)
    assert await parking.counts() == (0, 0)


async def test_a_landing_that_died_is_found_again(parking: Parking, later: Callable[[float], None]) -> None:
    await park(parking)
    await parking.claim([TICKET], lease_ms=LEASE_MS)
    assert await due(parking) == []
    later(LEASE_MS + 1)
    assert await due(parking) == [TICKET]
    assert await parking.claim([TICKET], lease_ms=LEASE_MS) == [b"message"]


async def test_each_is_looked_at_now_and_then_and_at_once_when_news_were_missed(
    parking: Parking, later: Callable[[float], None]
) -> None:
    await park(parking)
    assert await due(parking) == []
    assert await parking.due(at_most=10, look_ms=LOOK_MS, ahead_ms=LOOK_MS) == [TICKET]
    later(LOOK_MS - 1)
    assert await due(parking) == []
    later(1)
    assert await due(parking) == [TICKET]
    assert await due(parking) == []


async def test_what_has_no_record_any_more_is_forgotten(parking: Parking, later: Callable[[float], None]) -> None:
    await park(parking)
    await parking.redis.delete(parking.keys.ticket(TICKET.name))
    later(LOOK_MS)
    assert await due(parking) == []
    assert await parking.counts() == (0, 0)


async def test_a_retry_takes_the_place_of_the_try_before(parking: Parking) -> None:
    await park(parking)
    await parking.claim([TICKET], lease_ms=LEASE_MS)
    assert await park(parking, RETRY)
    assert not await parking.settle(*TICKET), "the try before has no say any more"
    assert await parking.request_of("celery:t") == "celery:t:1"
    assert await parking.claim([RETRY], lease_ms=LEASE_MS) == [b"message"]
    assert await parking.settle("celery:t")
