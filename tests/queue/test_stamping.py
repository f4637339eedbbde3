"""Arrival times of elements that came by a raw LPUSH."""

from __future__ import annotations

import pytest
from tests.conftest import START_MS
from tests.queue.steps import board, body, content, ids, later, look, push, states, submit

from busload_shared.queue import Queue
from busload_shared.replies import Claim, NotYet


async def arrivals(queue: Queue) -> dict[str, float]:
    claim = await board(queue, "all", cap=10_000)
    return {seat.element.id: seat.element.arrival_ms - START_MS for seat in claim.seats}


async def test_a_raw_push_is_stamped_when_a_worker_first_looks(queue: Queue) -> None:
    await push(queue, "a")
    assert isinstance(await look(queue, "b1"), NotYet)
    later(queue, 20)
    assert await arrivals(queue) == {"a": 0}


async def test_a_stamp_is_never_changed_by_another_look(queue: Queue) -> None:
    await push(queue, "a")
    assert await queue.stamp()
    before = await content(queue)
    later(queue, 20)
    assert await queue.stamp()
    assert await content(queue) == before


async def test_only_new_elements_get_the_new_time(queue: Queue) -> None:
    await push(queue, "a")
    await queue.stamp()
    later(queue, 10)
    await push(queue, "b", "c")
    await queue.stamp()
    assert await arrivals(queue) == {"a": 0, "b": 10, "c": 10}


async def test_a_raw_id_waits_from_its_stamp_on(queue: Queue) -> None:
    await push(queue, "a")
    assert await states(queue, "a") == ["unknown"]
    await queue.stamp()
    assert await states(queue, "a") == ["waiting"]


async def test_a_raw_copy_does_not_change_what_is_known_of_an_id(queue: Queue) -> None:
    await submit(queue, "a", reply="r")
    await board(queue, "b1")
    await push(queue, "a")
    await queue.stamp()
    assert await states(queue, "a") == ["running"]


async def test_a_raw_element_under_a_client_s_is_as_old_as_that_one(queue: Queue) -> None:
    """Nobody looked between the two pushes, so the raw one is at least that old."""
    await push(queue, "raw")
    later(queue, 10)
    await submit(queue, "client")
    later(queue, 20)
    assert await arrivals(queue) == {"raw": 10, "client": 10}


async def test_a_raw_element_under_a_client_s_leaves_when_that_one_is_due(queue: Queue) -> None:
    await push(queue, "raw")
    await submit(queue, "client")
    later(queue, 49)
    waiting = await look(queue, "b1", wait=50)
    assert isinstance(waiting, NotYet)
    assert waiting.due_in_ms == 1
    later(queue, 1)
    assert ids(await look(queue, "b1", wait=50)) == ["raw", "client"]


async def test_a_push_larger_than_a_stamping_reaches_is_due_at_once_and_lost_to_nobody(queue: Queue) -> None:
    names = [str(i) for i in range(2000)]
    await push(queue, *names)
    claim = await look(queue, "b1", cap=5000)
    assert isinstance(claim, Claim)
    assert (claim.trigger, ids(claim)) == ("timeout", names)


async def test_a_stamp_from_the_future_makes_no_batch_leave_early_and_none_hang(queue: Queue) -> None:
    """B6: a producer whose clock is an hour ahead, and who writes the header itself."""
    await push(queue, b"@%.3f 0 0  a " % (START_MS + 3_600_000) + body("a"))
    assert isinstance(await look(queue, "b1", wait=50), NotYet)
    later(queue, 49)
    assert isinstance(await look(queue, "b1", wait=50), NotYet)
    later(queue, 1)
    claim = await look(queue, "b1", wait=50)
    assert isinstance(claim, Claim)
    assert claim.seats[0].element.arrival_ms == START_MS


async def test_a_stamp_from_the_future_behind_others_is_read_as_now(queue: Queue) -> None:
    await submit(queue, "a")
    await push(queue, b"@%.3f 0 0  b " % (START_MS + 3_600_000) + body("b"))
    assert await arrivals(queue) == {"a": 0, "b": 0}


async def test_a_raw_element_under_a_stamp_from_the_future_does_not_hang(queue: Queue) -> None:
    await push(queue, "raw")
    await push(queue, b"@%.3f 0 0  b " % (START_MS + 3_600_000) + body("b"))
    assert ids(await look(queue, "b1", wait=50)) == ["raw", "b"]


async def test_when_the_clock_of_redis_steps_back_a_window_still_ends(queue: Queue) -> None:
    await submit(queue, "a")
    later(queue, -600_000)
    assert isinstance(await look(queue, "b1", wait=50), NotYet)
    later(queue, 50)
    assert ids(await look(queue, "b1", wait=50)) == ["a"]


@pytest.mark.parametrize(
    "forged", [b"@" + b"9" * 400 + b".0 0 0  a ", b"@1.0 99999999999 0  a ", b"@1.0 0 99999999999  a "]
)
async def test_a_header_that_no_script_wrote_is_payload(queue: Queue, forged: bytes) -> None:
    await push(queue, forged + body("a"))
    (seat,) = (await board(queue, "b1")).seats
    assert seat.element.payload == forged + body("a")
    assert (seat.element.arrival_ms, seat.element.id) == (START_MS, "")


async def test_an_id_is_not_read_from_a_payload_that_would_block_redis(queue: Queue) -> None:
    await push(queue, body("small", prompt="x" * 10), body("large", prompt="x" * 2_000_000))
    assert ids(await board(queue, "b1")) == ["small", ""]
