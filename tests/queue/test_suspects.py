"""Suspects: who died with others is run again in halves, and only a death alone counts against a request."""

from __future__ import annotations

import math
import random

import pytest
from tests.queue.steps import board, deliver, ids, look, submit

from busload_shared.queue import Queue
from busload_shared.replies import Claim


async def groups(queue: Queue) -> list[list[str]]:
    """The groups of the retry list, in the order they will leave."""
    found = []
    while isinstance(claim := await look(queue, f"g{len(found)}"), Claim):
        found.append(ids(claim))
    return found


@pytest.mark.parametrize(("size", "halves"), [(1, [1]), (2, [1, 1]), (3, [2, 1]), (7, [4, 3]), (8, [4, 4])])
async def test_a_dead_batch_is_halved(queue: Queue, size: int, halves: list[int]) -> None:
    await submit(queue, *(str(i) for i in range(size)))
    await board(queue, "b1")
    await queue.release("b1")
    assert [len(group) for group in await groups(queue)] == halves


async def test_halves_are_not_mixed_with_fresh_requests(queue: Queue) -> None:
    await submit(queue, *"abcd")
    await board(queue, "b1")
    await queue.release("b1")
    await submit(queue, *"efgh")
    left = [ids(await board(queue, f"c{i}")) for i in range(3)]
    assert sorted(left) == [["a", "b"], ["c", "d"], ["e", "f", "g", "h"]]


async def test_suspects_and_fresh_requests_leave_in_turn(queue: Queue) -> None:
    """Q46: retries starve nobody and are starved by nobody."""
    await submit(queue, *(str(i) for i in range(8)))
    dead = [await board(queue, f"b{i}", cap=2) for i in range(4)]
    for claim in dead:
        await queue.release(claim.batch)
    await submit(queue, *(f"n{i}" for i in range(8)))
    order = [ids(await board(queue, f"c{i}", cap=2))[0][0] for i in range(8)]
    assert ["n" if name == "n" else "suspect" for name in order] == ["suspect", "n"] * 4


async def test_suspects_do_not_wait_for_a_window(queue: Queue) -> None:
    await submit(queue, "a")
    await board(queue, "b1")
    await queue.release("b1")
    claim = await look(queue, "b2", wait=10_000)
    assert isinstance(claim, Claim)
    assert (claim.trigger, ids(claim)) == ("retry", ["a"])


async def test_fresh_ones_that_are_not_due_do_not_hold_up_suspects(queue: Queue) -> None:
    await submit(queue, "a", "b")
    await board(queue, "b1")
    await queue.release("b1")
    await submit(queue, "new")
    assert [ids(await look(queue, f"c{i}", wait=50)) for i in range(3)] == [["a"], ["b"], []]


async def test_only_a_batch_of_one_is_evidence_against_its_row(queue: Queue) -> None:
    await submit(queue, "a", "b", "c")
    claim = await board(queue, "b1")
    await queue.deliver("b1", [], ttl_s=60)
    await deliver(queue, Claim("b1", 0, 0, 0, "full", claim.seats[:2]))
    await queue.release("b1")
    (seat,) = (await board(queue, "b2")).seats
    assert (seat.element.id, seat.element.attempts, seat.element.lone_deaths) == ("c", 1, 0)
    await queue.release("b2")
    (seat,) = (await board(queue, "b3")).seats
    assert (seat.element.attempts, seat.element.lone_deaths) == (2, 1)


async def test_an_answered_suspect_does_not_make_its_group_wait(queue: Queue) -> None:
    await submit(queue, *"abcd")
    await board(queue, "b1")
    await queue.release("b1")
    await queue.cancel("a", result=b"{}", ttl_s=60)
    assert await groups(queue) == [["b"], ["c", "d"]]


async def run_until_empty(queue: Queue, poison: set[str]) -> tuple[int, list[str], list[str]]:
    """A worker that dies on poison and convicts whoever died alone twice: deaths, convicted, answered."""
    deaths, convicted, answered, batch = 0, [], [], 0
    while isinstance(claim := await look(queue, f"r{batch}", cap=32, drain=True), Claim):
        batch += 1
        guilty = [seat for seat in claim.seats if seat.element.lone_deaths >= 2]
        convicted += [seat.element.id for seat in guilty]
        alive = not poison & set(ids(claim)) - set(convicted)
        rows = claim.seats if alive else guilty
        await deliver(queue, Claim(claim.batch, 0, 0, 0, claim.trigger, tuple(rows)))
        answered += [seat.element.id for seat in rows if seat not in guilty]
        if not alive:
            deaths += 1
            await queue.release(claim.batch)
    return deaths, convicted, answered


@pytest.mark.parametrize("size", [1, 2, 7, 32])
async def test_one_poison_request_is_found_in_few_deaths(queue: Queue, size: int) -> None:
    """B14, Q34."""
    names = [str(i) for i in range(size)]
    culprit = random.Random(size).choice(names)
    await submit(queue, *names)
    deaths, convicted, answered = await run_until_empty(queue, {culprit})
    assert convicted == [culprit]
    assert sorted(answered) == sorted(set(names) - {culprit})
    assert deaths <= math.ceil(math.log2(size)) + 2


@pytest.mark.parametrize("seed", range(25))
async def test_no_innocent_is_convicted(real_queue: Queue, seed: int) -> None:
    """Q35: with several poison requests in several batches."""
    chance = random.Random(seed)
    names = [str(i) for i in range(chance.randint(2, 96))]
    poison = set(chance.sample(names, chance.randint(1, min(5, len(names)))))
    await submit(real_queue, *names)
    _, convicted, answered = await run_until_empty(real_queue, poison)
    assert sorted(convicted) == sorted(poison)
    assert sorted(answered) == sorted(set(names) - poison)
