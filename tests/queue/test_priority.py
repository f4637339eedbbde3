"""Who boards first: a point of priority is worth ten seconds of waiting, and nobody is passed for ever."""

from __future__ import annotations

import asyncio

from tests.queue.desk import Desk, becomes
from tests.queue.steps import board, body, deliver, ids, later, look, push, states, submit

from busload import AsyncClient
from busload_shared.queue import Queue
from busload_shared.replies import Claim, NotYet
from busload_shared.terms import STEP_S, Terms

STEP_MS = STEP_S * 1000


async def blocked(queue: Queue) -> int:
    """How many connections block."""
    return int((await queue.redis.info("clients"))["blocked_clients"])


async def ranked(queue: Queue, name: str, priority: int) -> str:
    sent = await queue.submit(
        [(name, body(name, priority=priority))], limit=1_000_000, terms={0: Terms(priority=priority)}
    )
    return sent.states[0]


async def test_the_more_urgent_board_first_and_the_less_urgent_last(queue: Queue) -> None:
    await ranked(queue, "bulk", -5)
    await submit(queue, "a", "b")
    await ranked(queue, "soon", 1)
    await ranked(queue, "now", 9)
    assert ids(await board(queue, "b1", cap=2)) == ["now", "soon"]
    assert ids(await board(queue, "b2", cap=2)) == ["a", "b"]
    assert ids(await board(queue, "b3", cap=2)) == ["bulk"]


async def test_an_urgent_one_boards_next_however_many_wait(queue: Queue) -> None:
    for start in range(0, 5000, 500):
        await submit(queue, *(f"r{start + i}" for i in range(500)))
    await ranked(queue, "now", 1)
    assert ids(await board(queue, "b1", cap=4)) == ["r0", "r1", "r2", "now"]


async def test_a_point_is_worth_ten_seconds_of_waiting(queue: Queue) -> None:
    await submit(queue, "old")
    later(queue, STEP_MS + 1)
    await ranked(queue, "one-point", 1)
    await ranked(queue, "two-points", 2)
    assert ids(await board(queue, "b1", cap=1)) == ["two-points"]
    assert ids(await board(queue, "b2", cap=1)) == ["old"]
    assert ids(await board(queue, "b3", cap=1)) == ["one-point"]


async def test_the_lowest_boards_within_its_bound_though_the_highest_come_without_end(queue: Queue) -> None:
    """B25. The bound: (highest - own priority) steps after its arrival nobody who comes can pass it."""
    await ranked(queue, "lowest", -3)
    bound_ms, came, boarded = (3 - -3) * STEP_MS, 0, False
    while not boarded:
        for _ in range(4):  # twice what leaves
            came += 1
            await ranked(queue, f"high{came}", 3)
        later(queue, STEP_MS / 2)
        claim = await board(queue, f"b{came}", cap=2)
        boarded = "lowest" in ids(claim)
        await deliver(queue, claim)
        assert came < 1000
    # who came before the bound may pass it: 4 each half step, 2 of them leave each half step
    assert came / 4 <= 2 * bound_ms / (STEP_MS / 2) + 2


async def test_ranked_ones_fill_a_batch_and_make_it_due_like_any_other(queue: Queue) -> None:
    await ranked(queue, "a", -1)
    assert isinstance(await look(queue, "b1", cap=3, wait=50), NotYet)
    later(queue, 49)
    await submit(queue, "b")
    assert isinstance(await look(queue, "b1", cap=3, wait=50), NotYet)
    later(queue, 1)
    claim = await look(queue, "b1", cap=3, wait=50)
    assert isinstance(claim, Claim)
    assert (claim.trigger, sorted(ids(claim))) == ("timeout", ["a", "b"])
    for name, priority in (("c", 1), ("d", 2), ("e", 0)):
        await ranked(queue, name, priority)
    full = await look(queue, "b2", cap=3, wait=50)
    assert isinstance(full, Claim)
    assert full.trigger == "full"


async def test_a_raw_producer_has_priorities_too(queue: Queue) -> None:
    await push(queue, "a", body("urgent", priority=2), "b", body("bulk", priority=-2), body("odd", priority="x"))
    assert await queue.stamp()
    assert await states(queue, "urgent", "bulk", "odd") == ["waiting"] * 3
    assert sorted(ids(await board(queue, "b1", cap=4))) == ["a", "b", "odd", "urgent"]
    assert ids(await board(queue, "b2", cap=4)) == ["bulk"]


async def test_a_ranked_one_is_counted_refused_found_and_cancelled_like_any_other(queue: Queue) -> None:
    assert await ranked(queue, "a", 5) == "queued"
    assert await ranked(queue, "a", 5) == "waiting"
    assert (await queue.info()).waiting == 1
    full = await queue.submit([("b", body("b", priority=5))], limit=1, terms={0: Terms(priority=5)})
    assert full.states == ("full",), "the newcomer is refused, never who waits"
    assert await queue.cancel("a", result=b"{}", ttl_s=60) == "cancelled"
    assert isinstance(await look(queue, "b1", drain=True), NotYet), "what is left of it is dropped"
    assert (await queue.info()).waiting == 0


async def test_a_batch_handed_back_boards_again_first(queue: Queue) -> None:
    await submit(queue, "a")
    await ranked(queue, "now", 3)
    claim = await board(queue, "b1", cap=2)
    await queue.hand_back(claim.batch)
    await submit(queue, "later")
    assert sorted(ids(await board(queue, "b2", cap=2))) == ["a", "now"]


async def test_an_idle_worker_wakes_up_for_a_ranked_one(client: AsyncClient, desk: Desk) -> None:
    """It blocks on the list; the ranked ones are elsewhere."""
    queue = desk.queue
    for round_ in range(20):
        peek = asyncio.create_task(queue.wait_for_arrival(queue.redis, timeout_s=0.9))
        await becomes(lambda: blocked(queue), 1)
        await client.submit(id=f"r{round_}", prompt="x", priority=1)
        assert await peek, "woken, not timed out"
        claim = await desk.claim()
        assert ids(claim) == [f"r{round_}"]  # type: ignore[arg-type]
        await desk.answer(claim)  # type: ignore[arg-type]
    assert await queue.redis.llen(queue.keys.queue) == 0, "no bell is left behind"


async def test_the_bell_is_no_request(queue: Queue) -> None:
    await ranked(queue, "a", 1)
    await submit(queue, "b")
    assert (await queue.info()).waiting == 2
    claim = await board(queue, "b1", cap=8)
    assert sorted(ids(claim)) == ["a", "b"]
    await queue.hand_back(claim.batch)
    await ranked(queue, "c", 1)
    assert sorted(ids(await board(queue, "b2", cap=8))) == ["a", "b", "c"]
