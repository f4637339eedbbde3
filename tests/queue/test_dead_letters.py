"""Dead letters: what will not be run again, with its reason, and the way back."""

from __future__ import annotations

import pytest
from tests.conftest import START_MS
from tests.queue.steps import (
    board,
    body,
    bury,
    content,
    deliver,
    ids,
    later,
    letter,
    push,
    result,
    states,
    submit,
)  # fmt: skip

from busload_shared import queue as queue_module
from busload_shared.queue import Queue


async def test_a_dead_letter_comes_with_an_error_result(queue: Queue) -> None:
    await submit(queue, "a")
    assert await bury(queue, await board(queue, "b1")) == [True]
    (dead,) = await queue.dead_letters()
    assert (dead.id, dead.code, dead.payload_bytes) == ("a", "poison", body("a"))
    (found,) = await queue.status(["a"])
    assert found.result is not None
    assert found.result.status == "failed"


async def test_delivering_a_dead_letter_again_leaves_one(queue: Queue) -> None:
    await submit(queue, "a")
    claim = await board(queue, "b1")
    await bury(queue, claim)
    assert await bury(queue, claim) == [True]
    assert len(await queue.dead_letters()) == 1


async def test_the_newest_come_first_and_a_page_can_be_asked_for(queue: Queue) -> None:
    for name in "abc":
        await submit(queue, name)
        await bury(queue, await board(queue, name))
    assert [dead.id for dead in await queue.dead_letters()] == ["c", "b", "a"]
    assert [dead.id for dead in await queue.dead_letters(start=1, count=1)] == ["b"]


async def test_a_redriven_letter_waits_as_if_it_had_just_come(queue: Queue) -> None:
    await submit(queue, "a")
    await bury(queue, await board(queue, "b1"))
    later(queue, 500)
    (dead,) = await queue.dead_letters()
    assert await queue.redrive(dead)
    assert await states(queue, "a") == ["waiting"]
    assert await queue.dead_letters() == []
    claim = await board(queue, "b2")
    element = claim.seats[0].element
    assert (element.id, element.arrival_ms, element.attempts) == ("a", START_MS + 500, 0)
    assert element.payload == body("a")
    assert await deliver(queue, claim) == [True]


async def test_a_letter_is_redriven_once(queue: Queue) -> None:
    await submit(queue, "a")
    await bury(queue, await board(queue, "b1"))
    (dead,) = await queue.dead_letters()
    assert await queue.redrive(dead)
    before = await content(queue)
    assert not await queue.redrive(dead)
    assert await content(queue) == before


async def test_only_the_letter_asked_for_is_redriven(queue: Queue) -> None:
    await submit(queue, "a", "b", "c")
    await bury(queue, await board(queue, "b1"))
    dead = {each.id: each for each in await queue.dead_letters()}
    await queue.redrive(dead["b"])
    assert ids(await board(queue, "b2")) == ["b"]
    assert [each.id for each in await queue.dead_letters()] == ["c", "a"]


@pytest.mark.parametrize("junk", [b"", b"\x00\xff not UTF-8", b"[1,2", 'straße "\u2028"'.encode()])
async def test_any_bytes_come_back_as_they_were(queue: Queue, junk: bytes) -> None:
    await push(queue, junk)
    await bury(queue, await board(queue, "b1"))
    (dead,) = await queue.dead_letters()
    assert dead.payload_bytes == junk
    assert await queue.redrive(dead)
    (seat,) = (await board(queue, "b2")).seats
    assert seat.element.payload == junk


async def test_purging_drops_the_letters_and_keeps_their_results(queue: Queue) -> None:
    await submit(queue, "a", "b")
    await bury(queue, await board(queue, "b1"))
    assert await queue.purge_dead() == 2
    assert await queue.purge_dead() == 0
    assert await queue.dead_letters() == []
    assert await states(queue, "a", "b") == ["answered"] * 2


async def test_the_oldest_letters_go_when_there_are_too_many(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_module, "DEAD_LETTERS_KEPT", 2)
    await submit(queue, "a", "b", "c")
    await bury(queue, await board(queue, "b1"))
    assert [dead.id for dead in await queue.dead_letters()] == ["c", "b"]


async def test_a_letter_nobody_left_is_not_redriven(queue: Queue) -> None:
    await queue.redis.set(queue.keys.result("a"), result("a"), px=60_000)
    assert not await queue.redrive(letter("a"))
    assert await states(queue, "a") == ["answered"]


async def test_a_letter_whose_id_was_submitted_again_makes_no_second_copy(queue: Queue) -> None:
    await submit(queue, "a")
    await bury(queue, await board(queue, "b1"))
    (dead,) = await queue.dead_letters()
    await queue.redis.delete(queue.keys.result("a"))
    await submit(queue, "a")
    claim = await board(queue, "b2")
    assert await queue.redrive(dead)
    assert await queue.redis.llen(queue.keys.queue) == 0
    assert await deliver(queue, claim) == [True]
    assert await queue.dead_letters() == []
