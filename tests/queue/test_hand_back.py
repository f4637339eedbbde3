"""A graceful stop hands back what is left: in order, with its age, and no attempt is counted."""

from __future__ import annotations

from tests.conftest import START_MS
from tests.queue.steps import answer, board, content, deliver, ids, later, look, push, states, submit

from busload_shared.queue import Queue
from busload_shared.replies import Claim, NotYet


async def test_rows_go_back_to_the_head_in_their_order(queue: Queue) -> None:
    """B28."""
    await submit(queue, *"abcd")
    await board(queue, "b1", cap=3)
    assert await queue.hand_back("b1") == 3
    assert ids(await board(queue, "b2")) == ["a", "b", "c", "d"]


async def test_rows_keep_their_age_and_reply_and_count_no_attempt(queue: Queue) -> None:
    await submit(queue, "a", reply="r1")
    later(queue, 30)
    await board(queue, "b1")
    await queue.hand_back("b1")
    assert await states(queue, "a") == ["waiting"]
    assert isinstance(await look(queue, "b2", wait=50), NotYet)
    later(queue, 20)
    claim = await look(queue, "b2", wait=50)
    assert isinstance(claim, Claim)
    element = claim.seats[0].element
    assert (element.arrival_ms, element.attempts, element.reply) == (START_MS, 0, "r1")


async def test_only_what_is_left_goes_back(queue: Queue) -> None:
    await submit(queue, "a", "b", "c")
    claim = await board(queue, "b1")
    await queue.deliver("b1", [answer(claim.seats[1])], ttl_s=60)
    assert await queue.hand_back("b1") == 2
    assert ids(await board(queue, "b2")) == ["a", "c"]


async def test_handing_back_again_changes_nothing(queue: Queue) -> None:
    await submit(queue, "a")
    await board(queue, "b1")
    await queue.hand_back("b1")
    before = await content(queue)
    assert await queue.hand_back("b1") == 0
    assert await content(queue) == before


async def test_a_batch_that_was_taken_back_is_not_handed_back_too(queue: Queue) -> None:
    await submit(queue, "a")
    await board(queue, "b1", lease=10)
    later(queue, 10)
    await queue.reclaim()
    assert await queue.hand_back("b1") == 0
    assert ids(await board(queue, "b2")) == ["a"]
    assert isinstance(await look(queue, "b3", drain=True), NotYet)


async def test_who_handed_back_can_deliver_no_more(queue: Queue) -> None:
    await submit(queue, "a")
    claim = await board(queue, "b1")
    await queue.hand_back("b1")
    assert await deliver(queue, claim) == [False]


async def test_suspects_stay_a_group_of_their_own(queue: Queue) -> None:
    await submit(queue, *"abcdef")
    await board(queue, "b1")
    await queue.release("b1")
    await submit(queue, "new")
    claim = await board(queue, "b2")
    await queue.deliver("b2", [answer(claim.seats[0])], ttl_s=60)
    assert await queue.hand_back("b2") == 2
    groups = [ids(await board(queue, f"c{i}")) for i in range(3)]
    assert sorted(groups) == [["b", "c"], ["d", "e", "f"], ["new"]]


async def test_a_raw_row_keeps_the_stamp_it_got_at_its_claim(queue: Queue) -> None:
    await push(queue, "a")
    await board(queue, "b1")
    await queue.hand_back("b1")
    later(queue, 50)
    (seat,) = (await board(queue, "b2")).seats
    assert seat.element.arrival_ms == START_MS


async def test_a_batch_that_was_handed_back_has_not_had_its_turn(queue: Queue) -> None:
    await submit(queue, *"abcd")
    await board(queue, "b1", cap=2)
    await queue.release("b1")
    assert ids(await board(queue, "b2", cap=2)) == ["a"], "suspects first"
    assert ids(await board(queue, "b3", cap=2)) == ["c", "d"], "then fresh ones, claimed ahead"
    await queue.hand_back("b3")
    await queue.release("b2")
    assert ids(await board(queue, "b4", cap=2)) == ["c", "d"], "theirs is the turn still"
