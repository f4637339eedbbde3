"""Whatever is pushed onto the list comes out: no junk hurts its neighbours or stops the queue."""

from __future__ import annotations

import random

import pytest
from tests.queue.steps import answer, board, body, bury, deliver, ids, look, push, states, submit

from busload_shared.queue import Queue
from busload_shared.replies import Claim, NotYet

JUNK = {
    "nothing": b"",
    "NUL": b"\x00",
    "text": b"hello",
    "half a JSON": b'{"id":"x","prompt":',
    "invalid UTF-8": b'{"id":"x\xff\xfe"',
    "no id": b'{"prompt":"x"}',
    "id is a number": b'{"id":42,"prompt":"x"}',
    "id is null": b'{"id":null,"prompt":"x"}',
    "id is empty": b'{"id":"","prompt":"x"}',
    "id with a space": b'{"id":"a b","prompt":"x"}',
    "id with a line end": b'{"id":"a\\nb","prompt":"x"}',
    "id with NUL": b'{"id":"a\\u0000b","prompt":"x"}',
    "id too long": b'{"id":"' + b"x" * 5000 + b'","prompt":"x"}',
    "list": b"[1,2,3]",
    "number": b"12",
    "null": b"null",
    "nested 5,000": b"[" * 5000 + b"]" * 5000,
    "10 MB": b'{"id":"large","prompt":"' + b"x" * 10_000_000 + b'"}',
    "half a header": b"@1.0 0 0",
    "header of words": b"@now 0 0  x {}",
    "group mark": b"=3 {}",
    "many spaces": b" " * 5000,
}


@pytest.mark.parametrize("name", JUNK)
async def test_junk_rides_with_its_neighbours_and_comes_out_byte_for_byte(queue: Queue, name: str) -> None:
    """B18, Q36, Q37."""
    await push(queue, "before", JUNK[name], "after")
    claim = await look(queue, "b1", cap=3)
    assert ids(claim) == ["before", "", "after"]
    assert isinstance(claim, Claim)
    assert claim.seats[1].element.payload == JUNK[name]
    good = [answer(claim.seats[0]), answer(claim.seats[2])]
    assert await queue.deliver("b1", good, ttl_s=60) == [True, True]
    assert await bury(queue, Claim("b1", 0, 0, 0, "full", claim.seats[1:2])) == [True]
    (dead,) = await queue.dead_letters()
    assert dead.payload_bytes == JUNK[name]
    assert await states(queue, "before", "after") == ["answered"] * 2


@pytest.mark.parametrize("name", JUNK)
async def test_junk_that_killed_its_worker_comes_back_alone_as_it_was(queue: Queue, name: str) -> None:
    await push(queue, JUNK[name])
    await board(queue, "b1")
    await queue.release("b1")
    (seat,) = (await board(queue, "b2")).seats
    assert (seat.element.payload, seat.element.lone_deaths) == (JUNK[name], 1)


async def test_random_bytes_come_out_as_they_went_in_and_in_order(queue: Queue) -> None:
    chance = random.Random(1)
    junk = [chance.randbytes(chance.randint(0, 60)) for _ in range(500)]
    await push(queue, *junk)
    claim = await board(queue, "b1", cap=1000)
    assert [seat.element.payload for seat in claim.seats] == junk


async def test_of_two_elements_with_the_same_bytes_one_runs(queue: Queue) -> None:
    """B18."""
    await push(queue, body("a"), body("a"))
    claim = await board(queue, "b1")
    assert ids(claim) == ["a"]
    assert await deliver(queue, claim) == [True]


async def test_of_two_elements_with_one_id_and_other_bytes_the_first_result_stays(queue: Queue) -> None:
    """B18: a mistake or forgery of one producer never makes another's request vanish."""
    await push(queue, body("a"), body("a", prompt="other"))
    claim = await board(queue, "b1")
    assert [seat.element.payload for seat in claim.seats] == [body("a"), body("a", prompt="other")]
    rows = [answer(seat, worker=f"for {seat.position}") for seat in claim.seats]
    assert await queue.deliver("b1", rows, ttl_s=60) == [True, False]
    assert await queue.results(["a"]) == [rows[0].result]
    assert await queue.redis.exists(queue.keys.inflight, queue.keys.batches, queue.keys.leases) == 0


async def test_of_two_clients_that_send_one_id_the_first_is_the_request(queue: Queue) -> None:
    await submit(queue, "a")
    sent = await queue.submit([("a", body("a", prompt="other"))], limit=9)
    assert sent.states == ("waiting",)
    assert [seat.element.payload for seat in (await board(queue, "b1")).seats] == [body("a")]


async def test_a_raw_copy_beside_a_client_s_is_dropped(queue: Queue) -> None:
    await push(queue, "a")
    await submit(queue, "a")
    claim = await board(queue, "b1")
    assert ids(claim) == ["a"]
    await deliver(queue, claim)
    assert isinstance(await look(queue, "b2", drain=True), NotYet)


async def test_an_element_too_large_to_read_its_id_is_answered_by_the_id_its_worker_reads(queue: Queue) -> None:
    await push(queue, JUNK["10 MB"])
    (seat,) = (await board(queue, "b1")).seats
    row = answer(seat)._replace(id="large")
    assert await queue.deliver("b1", [row], ttl_s=60) == [True]
    assert (await queue.results(["large"]))[0] is not None
