"""Forged and broken entries in each key of a queue: they cost what they touch, never a neighbour or the queue."""

from __future__ import annotations

import pytest
from tests.hostile.junk import body
from tests.queue.steps import board, bury, deliver, ids, later, look, push, states, submit

from busload_shared.queue import Queue
from busload_shared.replies import Claim

pytestmark = pytest.mark.leaves_keys


async def test_a_forged_arrival_makes_no_neighbour_expire(any_queue: Queue) -> None:
    """A raw request that was not stamped yet is as old as its newer neighbour says, but no more than a second: workers
    stamp twice in that time."""
    now = any_queue.now_ms or 0
    await push(any_queue, body("a", ttl_s=60), b"@1.000 0 0  x " + body("x"))
    claim = await board(any_queue, "b1")
    assert claim.seats[0].element.id == "a"
    assert now - 1000 <= claim.seats[0].element.arrival_ms <= now


@pytest.mark.parametrize("arrival", ["0.000", "1.000", "99999999999999.000"])
async def test_a_forged_arrival_neither_overtakes_nor_holds_up(any_queue: Queue, arrival: str) -> None:
    await submit(any_queue, "a")
    await push(any_queue, f"@{arrival} 0 0  x ".encode() + body("x"))
    await submit(any_queue, "b")
    later(any_queue, 60)
    assert ids(await look(any_queue, "b1", wait=50)) == ["a", "x", "b"]


async def test_a_raw_copy_with_a_deadline_does_not_expire_anothers_request(any_queue: Queue) -> None:
    """Somebody pushes JSON under the id of a request that waits, with a deadline that has passed."""
    await submit(any_queue, "victim")
    await push(any_queue, body("victim", deadline=1.0))
    await any_queue.stamp()
    assert await any_queue.redis.exists("{busload:test}:deadlines") == 0
    assert await states(any_queue, "victim") == ["waiting"]


RETRY = [
    b"=999999999999999999 ", b"=2000000000 ", b"=0 ", b"=00 ", b"=-1 ", b"=1e9 ", b"= ", b"=", b"=3 =3 =3 ",
    b"junk", b"",
    b"=5 @1.000 0 0  z ", b"@1.000 0 0 ",
]  # fmt: skip


@pytest.mark.parametrize("mark", RETRY)
async def test_a_forged_entry_in_the_retry_list_boards_and_the_queue_goes_on(any_queue: Queue, mark: bytes) -> None:
    await any_queue.redis.lpush(any_queue.keys.retry, mark + body("forged"))
    await submit(any_queue, "a", "b")
    seen: list[str] = []
    for number in range(4):
        claim = await look(any_queue, f"b{number}", cap=2, wait=0.001)
        if isinstance(claim, Claim):
            seen += [seat.element.id for seat in claim.seats]
            await deliver(any_queue, claim)
    assert {"a", "b"} <= set(seen)
    assert len(seen) == 3


async def test_a_row_in_flight_that_is_junk_costs_no_other_row_of_its_batch(any_queue: Queue) -> None:
    q, k = any_queue, any_queue.keys
    await submit(q, "a", "b", "c")
    await board(q, "b1")
    await q.redis.hset(k.inflight, "b1:1", b"junk")
    assert ids(await board(q, "b1")) == ["a", "", "c"], "claimed again under its name"
    assert await q.release("b1") == 3
    assert ids(await board(q, "b2", cap=3)) == ["a", ""]
    assert ids(await board(q, "b3", cap=3)) == ["c"]


@pytest.mark.parametrize("record", ["", "junk", "-1 full 1.0 w", "1e9 full", "3", "99999999999999999999 full 1.0 w"])
async def test_a_batch_whose_record_is_junk_is_taken_back_at_no_cost(any_queue: Queue, record: str) -> None:
    q, k = any_queue, any_queue.keys
    await submit(q, "a")
    await board(q, "b1", lease=10)
    await q.redis.hset(k.batches, "junk", record)
    await q.redis.zadd(k.leases, {"junk": 1, "": 2, "no:such:batch": 3, b"\xff": 4})
    later(q, 20)
    await q.reclaim()
    assert ids(await board(q, "b2")) == ["a"]
    assert await q.redis.zcard(k.leases) == 1


async def test_a_row_of_a_number_past_all_bounds_does_not_block_redis(any_queue: Queue) -> None:
    q, k = any_queue, any_queue.keys
    await q.redis.hset(k.inflight, "far:99999999999", b"@1.000 0 0  far " + body("far"))
    await q.redis.hset(k.batches, "huge", "99999999999 full 1.0 w")
    await q.audit(grace_ms=0)
    later(q, 10)
    await q.reclaim()
    await submit(q, "a")
    assert "a" in ids(await board(q, "b1"))


async def test_junk_in_the_workers_records_and_counters_hides_no_other(any_queue: Queue) -> None:
    q, k = any_queue, any_queue.keys
    now = q.now_ms or 0
    await q.redis.zadd(k.workers, {"w9": now, b"\xff\xfe": now})
    await q.redis.set(k.worker("w9"), "junk", px=60_000)
    await q.redis.hset(k.stats, mapping={"succeeded": "9" * 5000, b"\xff": "1", "failed": "x", "dropped": "7"})
    info = await q.info()
    assert info.workers == ()
    assert info.counters["dropped"] == 7


async def test_a_dead_letter_that_is_none_hides_no_other(any_queue: Queue) -> None:
    q, k = any_queue, any_queue.keys
    await q.redis.lpush(k.dead, b"junk", b'{"id":5}', b"\xff")
    await push(q, b"no JSON")
    await bury(q, await board(q, "b1"))
    await q.redis.lpush(k.dead, b"[]")
    assert [letter.payload for letter in await q.dead_letters()] == ["no JSON"]


async def test_a_key_of_another_type_under_one_id_hides_no_other_id(any_queue: Queue) -> None:
    q, k = any_queue, any_queue.keys
    await submit(q, "a")
    await q.redis.hset(k.state("spoilt"), "x", "y")
    await q.redis.lpush(k.result("spoilt2"), "x")
    assert (await states(q, "spoilt", "spoilt2", "a"))[2] == "waiting"
    await q.cancel("spoilt", result=b"{}", ttl_s=60)
    await q.cancel("spoilt2", result=b"{}", ttl_s=60)


@pytest.mark.parametrize("state", [b"", b"r ", b"r", b"w", b"r :", b"r b1:0", b"\xff" * 9, b"d", b"x" * 100_000])
async def test_any_text_as_a_state_is_a_state(any_queue: Queue, state: bytes) -> None:
    q, k = any_queue, any_queue.keys
    await q.redis.set(k.state("a"), state, px=60_000)
    await submit(q, "b")
    assert (await states(q, "a", "b"))[1] == "waiting"
    await submit(q, "a")
    assert "b" in ids(await board(q, "b1"))


async def test_junk_among_the_ranked_boards_like_any_other(any_queue: Queue) -> None:
    q, k = any_queue, any_queue.keys
    junk = {"junk": float("-inf"), b"\xff": float("inf"), "": 0, b"@9.9 0 0  r " + body("r"): 1e308, b"=3 x": -1e308}
    await q.redis.zadd(k.ranked, junk)
    await submit(q, "a")
    seen = [seat for number in range(3) for seat in (await board(q, f"b{number}", cap=2)).seats]
    assert {"a", "r"} <= {seat.element.id for seat in seen}
    assert sorted(seat.element.payload for seat in seen if not seat.element.id) == [b"", b"=3 x", b"junk", b"\xff"]


async def test_junk_among_deadlines_and_lengths_is_passed_over(any_queue: Queue) -> None:
    q, k = any_queue, any_queue.keys
    await submit(q, "a")
    await q.redis.zadd(k.deadlines, {b"\xff": float("-inf"), "": 1, "no such id": 2, "x" * 100_000: 3, "a": 4})
    assert "a" in await q.overdue()
    answers = {name: b"{}" for name in await q.overdue()}
    assert await q.expire(answers, ttl_s=60) == 1
    assert await q.overdue() == []
    await q.redis.hset(k.lengths, mapping={b"\xff": b"junk", "a": "1 2", "b": "nan inf -inf", "c": "9" * 5000})
    await q.lengths()
