"""Rows a worker chose from the backlog: exactly those board that are still there, wherever others moved them."""

from __future__ import annotations

from collections.abc import Sequence

from tests.queue.steps import WORKER, board, body, ids, look, push, states, submit

from busload_shared.element import Element
from busload_shared.queue import Queue
from busload_shared.replies import Choice, Claim, NotYet
from busload_shared.terms import Terms


async def choose(queue: Queue, *names: str, heavy: bool = False) -> Choice:
    """A choice of these, as a worker makes it from what it sees."""
    picks = []
    for place, raw in enumerate(await queue.peek(100), 1):
        element = Element.parse(raw, latest_ms=1e15)
        if element.id in names:
            picks.append((place, raw[: len(raw) - len(element.payload)]))
    assert len(picks) == len(names)
    return Choice(tuple(picks), heavy)


async def take(queue: Queue, batch: str, choice: Choice, *, cap: int = 3, wait: float = 50) -> Claim | NotYet:
    return await queue.claim(batch, worker=WORKER, max_batch_size=cap, max_wait_ms=wait, lease_ms=1000, choice=choice)


async def waiting(queue: Queue) -> list[str]:
    return [Element.parse(raw, latest_ms=1e15).id for raw in await queue.peek(100)]


def names(count: int) -> Sequence[str]:
    return [f"r{i}" for i in range(count)]


async def test_a_peek_shows_the_oldest_first_and_changes_nothing(queue: Queue) -> None:
    await submit(queue, *names(5))
    assert [Element.parse(raw, latest_ms=1e15).id for raw in await queue.peek(3)] == ["r0", "r1", "r2"]
    assert (await queue.info()).waiting == 5


async def test_the_chosen_board_and_the_others_keep_their_order(queue: Queue) -> None:
    await submit(queue, *names(8))
    claim = await take(queue, "b1", await choose(queue, "r1", "r4", "r6"))
    assert ids(claim) == ["r1", "r4", "r6"]
    assert await waiting(queue) == ["r0", "r2", "r3", "r5", "r7"]
    assert await states(queue, "r1", "r0") == ["running", "waiting"]


async def test_they_are_found_where_others_claims_and_newcomers_have_moved_them(queue: Queue) -> None:
    await submit(queue, *names(9))
    choice = await choose(queue, "r2", "r5", "r8")
    await board(queue, "other", cap=2)
    await take(queue, "another", await choose(queue, "r4"), cap=1)
    await submit(queue, "new")
    assert ids(await take(queue, "b1", choice)) == ["r2", "r5", "r8"]
    assert await waiting(queue) == ["r3", "r6", "r7", "new"]


async def test_those_that_others_took_are_missing_and_nothing_else_boards_for_them(queue: Queue) -> None:
    await submit(queue, *names(8))
    choice = await choose(queue, "r0", "r1", "r7")
    await board(queue, "other", cap=2)
    assert ids(await take(queue, "b1", choice)) == ["r7"]


async def test_when_none_is_left_the_oldest_board_so_that_nobody_waits_for_ever(queue: Queue) -> None:
    await submit(queue, *names(8))
    choice = await choose(queue, "r0", "r1")
    await board(queue, "other", cap=2)
    assert ids(await take(queue, "b1", choice)) == ["r2", "r3"], "as many as were chosen"


async def test_a_choice_is_no_trigger(queue: Queue) -> None:
    await submit(queue, "a", "b")
    choice = await choose(queue, "a")
    assert isinstance(await take(queue, "b1", choice), NotYet)
    assert await waiting(queue) == ["a", "b"]


async def test_what_is_full_by_weight_leaves_at_once(queue: Queue) -> None:
    await submit(queue, "a", "b")
    claim = await take(queue, "b1", await choose(queue, "a", heavy=True))
    assert isinstance(claim, Claim)
    assert (claim.trigger, ids(claim), await waiting(queue)) == ("full", ["a"], ["b"])


async def test_those_with_a_priority_take_their_seats_first(queue: Queue) -> None:
    await submit(queue, *names(6))
    choice = await choose(queue, "r3", "r4", "r5")
    await queue.submit([("now", body("now", priority=1))], limit=100, terms={0: Terms(priority=1)})
    assert sorted(ids(await take(queue, "b1", choice))) == ["now", "r3", "r4"]
    assert await waiting(queue) == ["r0", "r1", "r2", "r5"]


async def test_the_same_name_gives_the_chosen_again(queue: Queue) -> None:
    await submit(queue, *names(6))
    choice = await choose(queue, "r1", "r4", "r5")
    first = await take(queue, "b1", choice)
    assert await take(queue, "b1", choice) == first
    assert len(await waiting(queue)) == 3


async def test_cancelled_ones_are_dropped_from_a_choice_and_copies_are_told_apart(queue: Queue) -> None:
    await submit(queue, *names(4))
    await push(queue, "r3", body("r3", prompt="another"))
    await queue.stamp()
    await queue.cancel("r2", result=b"{}", ttl_s=60)
    claim = await take(queue, "b1", await choose(queue, "r1", "r2"), cap=2)
    assert ids(claim) == ["r1"]


async def test_suspects_still_come_in_turn(queue: Queue) -> None:
    await submit(queue, "s0", "s1")
    await board(queue, "dead", lease=0)
    await queue.reclaim()
    await submit(queue, *names(6))
    choice = await choose(queue, "r3", "r4", "r5")
    first, second = await take(queue, "b1", choice), await take(queue, "b2", choice)
    assert isinstance(first, Claim)
    assert isinstance(second, Claim)
    assert {first.trigger, second.trigger} == {"retry", "full"}


async def test_a_look_that_finds_no_batch_tells_when_the_newest_came(queue: Queue) -> None:
    await submit(queue, "a")
    assert queue.now_ms is not None
    queue.now_ms += 30
    await submit(queue, "b")
    queue.now_ms += 7
    seen = await look(queue, "b1")
    assert isinstance(seen, NotYet)
    assert seen.newest_ms == 7
