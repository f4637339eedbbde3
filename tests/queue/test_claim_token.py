"""A claim whose reply was lost is asked for again under the same name."""

from __future__ import annotations

from tests.conftest import START_MS
from tests.queue.steps import answer, board, content, deliver, ids, later, look, push, states, submit

from busload_shared.queue import Queue
from busload_shared.replies import Claim, NotYet


async def test_the_same_name_gives_the_same_rows(queue: Queue) -> None:
    await submit(queue, "a", "b", "c", reply="r")
    first = await board(queue, "b1", cap=2)
    before = await content(queue)
    later(queue, 3)
    again = await look(queue, "b1", cap=2)
    assert isinstance(again, Claim)
    assert (again.seats, again.trigger, again.claimed_ms) == (first.seats, first.trigger, START_MS)
    assert again.now_ms == START_MS + 3
    assert await content(queue) == before


async def test_another_name_gives_other_rows(queue: Queue) -> None:
    await submit(queue, "a", "b")
    assert ids(await board(queue, "b1", cap=1)) == ["a"]
    assert ids(await board(queue, "b2", cap=1)) == ["b"]


async def test_the_same_name_after_a_part_was_delivered_gives_the_rest_in_their_own_seats(
    queue: Queue,
) -> None:
    await submit(queue, "a", "b", "c")
    first = await board(queue, "b1")
    await queue.deliver("b1", [answer(first.seats[0])], ttl_s=60)
    again = await look(queue, "b1")
    assert isinstance(again, Claim)
    assert again.seats == first.seats[1:]
    assert await deliver(queue, again) == [True, True]
    assert await states(queue, "a", "b", "c") == ["answered"] * 3


async def test_the_same_name_shows_who_was_cancelled_since(queue: Queue) -> None:
    await submit(queue, "a", "b")
    await board(queue, "b1")
    await queue.cancel("b", result=b"{}", ttl_s=60)
    again = await look(queue, "b1")
    assert isinstance(again, Claim)
    assert [seat.cancelled for seat in again.seats] == [False, True]


async def test_the_same_name_after_the_batch_was_taken_back_is_a_new_claim(queue: Queue) -> None:
    await submit(queue, "a")
    await board(queue, "b1", lease=10)
    later(queue, 11)
    await queue.reclaim()
    again = await look(queue, "b1")
    assert isinstance(again, Claim)
    assert (again.trigger, again.claimed_ms) == ("retry", START_MS + 11)


async def test_the_same_name_after_all_was_delivered_finds_nothing(queue: Queue) -> None:
    await submit(queue, "a")
    await deliver(queue, await board(queue, "b1"))
    assert isinstance(await look(queue, "b1"), NotYet)


async def test_a_batch_of_five_thousand_comes_through(real_queue: Queue) -> None:
    """More values than Lua can hand over one by one."""
    names = [str(i) for i in range(5000)]
    await submit(real_queue, *names)
    assert ids(await board(real_queue, "b1", cap=5000)) == names
    assert ids(await look(real_queue, "b1", cap=5000)) == names


async def test_two_copies_of_an_id_never_board_together(queue: Queue) -> None:
    await push(queue, "a", "a", "b")
    assert ids(await board(queue, "b1")) == ["a", "b"]
    assert (await queue.info()).counters["dropped"] == 1


async def test_a_copy_of_a_running_or_answered_id_is_dropped(queue: Queue) -> None:
    await submit(queue, "a")
    claim = await board(queue, "b1")
    await push(queue, "a")
    assert isinstance(await look(queue, "b2", drain=True), NotYet)
    await deliver(queue, claim)
    await push(queue, "a")
    assert isinstance(await look(queue, "b3", drain=True), NotYet)
    assert await queue.redis.llen(queue.keys.queue) == 0


async def test_dropped_rows_take_no_seat(queue: Queue) -> None:
    await submit(queue, "a", "b")
    await deliver(queue, await board(queue, "b1"))
    await push(queue, "a", "b", "c", "d")
    assert ids(await look(queue, "b2", cap=2)) == ["c", "d"]


async def test_a_claim_looks_at_four_batches_of_shells_at_most_and_the_next_goes_on(queue: Queue) -> None:
    await submit(queue, *(str(i) for i in range(20)))
    for i in range(20):
        await queue.cancel(str(i), result=b"{}", ttl_s=60)
    await submit(queue, "live")
    looks = [ids(await look(queue, f"b{i}", cap=2, drain=True)) for i in range(3)]
    assert looks == [[], [], ["live"]]
