"""Batches that died come back: oldest first, in halves, with their age."""

from __future__ import annotations

from tests.conftest import START_MS
from tests.queue.steps import WORKER, board, content, ids, later, look, states, submit

from busload_shared.queue import Queue
from busload_shared.replies import NotYet


async def test_a_dead_worker_s_batch_is_back_when_its_lease_ends(queue: Queue) -> None:
    """Q2: with no other traffic."""
    await submit(queue, "a", "b")
    await board(queue, "b1", lease=1000)
    later(queue, 999)
    assert await queue.reclaim() == []
    later(queue, 1)
    (taken,) = await queue.reclaim()
    assert (taken.batch, taken.rows) == ("b1", 2)
    assert taken.meta.split() == ["2", "drain", f"{START_MS:.3f}", WORKER]
    assert await states(queue, "a", "b") == ["waiting"] * 2
    assert await queue.redis.exists(queue.keys.inflight, queue.keys.batches, queue.keys.leases) == 0


async def test_taking_back_again_changes_nothing(queue: Queue) -> None:
    await submit(queue, "a")
    await board(queue, "b1", lease=10)
    later(queue, 10)
    await queue.reclaim()
    before = await content(queue)
    assert await queue.reclaim() == []
    assert await content(queue) == before


async def test_rows_come_back_in_order_with_their_age_and_reply(queue: Queue) -> None:
    await submit(queue, "a", reply="r1")
    later(queue, 5)
    await submit(queue, "b", "c")
    await board(queue, "b1", lease=10)
    later(queue, 10)
    await queue.reclaim()
    seats = [seat for i in range(2) for seat in (await board(queue, f"c{i}")).seats]
    assert [(s.element.id, s.element.arrival_ms - START_MS, s.element.reply) for s in seats] == [
        ("a", 0, "r1"), ("b", 5, ""), ("c", 5, ""),
    ]  # fmt: skip


async def test_only_as_many_batches_as_asked_for_the_oldest_first(queue: Queue) -> None:
    await submit(queue, *"abcde")
    for i in range(5):
        await board(queue, f"b{i}", cap=1, lease=10 + i)
    later(queue, 100)
    assert [taken.batch for taken in await queue.reclaim(at_most=2)] == ["b0", "b1"]
    assert [taken.batch for taken in await queue.reclaim()] == ["b2", "b3", "b4"]


async def test_a_call_stops_at_about_five_hundred_rows_to_not_block_redis(queue: Queue) -> None:
    await submit(queue, *(str(i) for i in range(900)))
    for i in range(3):
        await board(queue, f"b{i}", cap=300, lease=10 + i)
    later(queue, 100)
    assert [taken.rows for taken in await queue.reclaim()] == [300, 300]
    assert [taken.rows for taken in await queue.reclaim()] == [300]


async def test_a_released_batch_is_back_at_once(queue: Queue) -> None:
    await submit(queue, "a", "b", "c")
    await board(queue, "b1")
    assert await queue.release("b1") == 3
    assert await queue.release("b1") == 0
    assert (await queue.info()).counters["released"] == 1
    assert ids(await look(queue, "c1")) == ["a", "b"]


async def test_a_batch_taken_back_counts_one_attempt(queue: Queue) -> None:
    await submit(queue, "a", "b")
    await board(queue, "b1")
    await queue.release("b1")
    claim = await board(queue, "b2")
    assert [(s.element.attempts, s.element.lone_deaths) for s in claim.seats] == [(1, 0)]


async def test_ten_thousand_rows_of_dead_workers_come_back_oldest_first(real_queue: Queue) -> None:
    """Q33. What one call costs Redis is measured in the report of the tests, not asserted."""
    queue, names = real_queue, [str(i) for i in range(10_000)]
    await submit(queue, *names)
    for batch in range(313):
        await board(queue, f"b{batch}", cap=32, lease=10 + batch)
    later(queue, 10_000)
    rows = 0
    while taken := await queue.reclaim():
        rows += sum(batch.rows for batch in taken)
    assert rows == 10_000
    back = []
    while claimed := ids(await look(queue, f"c{len(back)}", cap=32)):
        back += claimed
    assert back == names


async def test_a_batch_whose_rows_were_all_answered_is_not_taken_back(queue: Queue) -> None:
    await submit(queue, "a")
    await board(queue, "b1")
    await queue.redis.hdel(queue.keys.inflight, "b1:0")
    assert await queue.release("b1") == 0
    assert isinstance(await look(queue, "b2", drain=True), NotYet)
