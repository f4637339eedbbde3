"""Enqueueing through the script."""

from __future__ import annotations

import pytest
from tests.conftest import START_MS
from tests.queue.steps import board, content, deliver, ids, later, push, states, submit

from busload_shared.queue import Queue


async def test_a_new_request_is_queued_and_waits(queue: Queue) -> None:
    assert await submit(queue, "a") == ("queued",)
    assert await states(queue, "a") == ["waiting"]


async def test_the_reply_says_how_many_wait_and_the_time_of_redis(queue: Queue) -> None:
    await submit(queue, "a")
    sent = await queue.submit([("b", b"{}"), ("c", b"{}")], limit=9)
    assert (sent.depth, sent.now_ms) == (3, START_MS)


async def test_without_a_held_clock_the_arrival_is_the_time_of_redis(real_queue: Queue) -> None:
    real_queue.now_ms = None
    seconds, micros = await real_queue.redis.time()
    await submit(real_queue, "a")
    (seat,) = (await board(real_queue, "b1")).seats
    assert 0 <= seat.element.arrival_ms - (seconds * 1000 + micros / 1000) < 1000


async def test_the_payload_comes_out_byte_for_byte(queue: Queue) -> None:
    payload = b'{"id":"a","seed":12345678901234567890,"stop":[],"x":1.0}'
    await queue.submit([("a", payload)], limit=9)
    (seat,) = (await board(queue, "b1")).seats
    assert seat.element.payload == payload


async def test_the_same_id_again_is_the_same_request_wherever_it_is(queue: Queue) -> None:
    await submit(queue, "a")
    assert await submit(queue, "a") == ("waiting",)
    claim = await board(queue, "b1")
    assert await submit(queue, "a") == ("running",)
    await deliver(queue, claim)
    assert await submit(queue, "a") == ("answered",)
    assert await queue.redis.llen(queue.keys.queue) == 0


async def test_the_same_id_twice_in_one_call_is_one_request(queue: Queue) -> None:
    assert await submit(queue, "a", "b", "a") == ("queued", "queued", "waiting")
    assert ids(await board(queue, "b1")) == ["a", "b"]


async def test_an_id_that_came_by_a_raw_push_is_known_once_it_is_stamped(queue: Queue) -> None:
    await push(queue, "a")
    await queue.stamp()
    assert await submit(queue, "a") == ("waiting",)


async def test_a_suspect_is_known_as_waiting(queue: Queue) -> None:
    await submit(queue, "a")
    await board(queue, "b1")
    await queue.release("b1")
    assert await submit(queue, "a") == ("waiting",)


async def test_a_full_queue_takes_what_fits_and_refuses_the_rest(queue: Queue) -> None:
    assert await submit(queue, "a", "b", "c", limit=2) == ("queued", "queued", "full")
    assert await submit(queue, "d", limit=2) == ("full",)
    assert await states(queue, "c", "d") == ["unknown", "unknown"]


async def test_a_full_queue_still_knows_those_who_wait(queue: Queue) -> None:
    await submit(queue, "a", limit=1)
    assert await submit(queue, "a", "b", limit=1) == ("waiting", "full")


async def test_an_id_whose_list_was_deleted_by_hand_may_come_again(queue: Queue) -> None:
    await submit(queue, "a")
    await queue.redis.delete(queue.keys.queue)
    assert await submit(queue, "a") == ("queued",)


async def test_an_id_whose_result_expired_may_come_again(queue: Queue) -> None:
    await submit(queue, "a")
    await deliver(queue, await board(queue, "b1"))
    await queue.redis.delete(queue.keys.result("a"))
    assert await submit(queue, "a") == ("queued",)
    assert ids(await board(queue, "b2")) == ["a"]


async def test_ten_thousand_in_one_call_keep_their_order(real_queue: Queue) -> None:
    names = [str(i) for i in range(10_000)]
    assert set(await submit(real_queue, *names)) == {"queued"}
    assert ids(await board(real_queue, "b1", cap=10_000)) == names


async def test_the_reply_token_and_the_age_travel_with_the_request(queue: Queue) -> None:
    await submit(queue, "a", reply="client-1")
    later(queue, 5)
    (seat,) = (await board(queue, "b1")).seats
    assert (seat.element.reply, seat.element.arrival_ms, seat.element.attempts) == ("client-1", START_MS, 0)


@pytest.mark.parametrize("name", ["42", "ünï-cödé", "a:b{c}", "x" * 256, "%s%d", "'\"\\"])
async def test_any_id_without_white_space_comes_through(queue: Queue, name: str) -> None:
    await submit(queue, name)
    claim = await board(queue, "b1")
    assert ids(claim) == [name]
    await deliver(queue, claim)
    assert await states(queue, name) == ["answered"]


async def test_nothing_to_submit_changes_nothing(queue: Queue) -> None:
    assert (await queue.submit([], limit=1)).states == ()
    assert await content(queue) == {}
