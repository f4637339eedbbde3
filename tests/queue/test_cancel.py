"""Cancelling a request, wherever it is: one terminal record, and its seat is free."""

from __future__ import annotations

import asyncio

import pytest
from tests.listening import listen_to
from tests.queue.steps import answer, board, content, deliver, ids, look, push, result, states, submit

from busload_shared.queue import Queue
from busload_shared.replies import Claim, NotYet


async def cancel(queue: Queue, name: str) -> str:
    return await queue.cancel(name, result=result(name, "cancelled"), ttl_s=60)


async def status_of(queue: Queue, name: str) -> str:
    (found,) = await queue.status([name])
    return found.result.status if found.result else found.state


async def test_a_waiting_request_is_answered_here_and_now(queue: Queue) -> None:
    """B20, Q38: no worker is needed."""
    await submit(queue, "a")
    assert await cancel(queue, "a") == "cancelled"
    assert await status_of(queue, "a") == "cancelled"
    assert (await queue.info()).counters == {"cancelled": 1}


async def test_a_waiting_suspect_is_answered_here_and_now(queue: Queue) -> None:
    await submit(queue, "a", "b")
    await board(queue, "b1")
    await queue.release("b1")
    assert await cancel(queue, "b") == "cancelled"
    assert ids(await look(queue, "b2", drain=True)) == ["a"]
    assert isinstance(await look(queue, "b3", drain=True), NotYet)


async def test_what_is_left_of_a_cancelled_request_takes_no_seat(queue: Queue) -> None:
    """B21."""
    await submit(queue, *"abcd")
    await cancel(queue, "a")
    await cancel(queue, "c")
    assert ids(await look(queue, "b1", cap=2)) == ["b", "d"]


async def test_what_is_left_never_runs_even_after_the_result_expired(queue: Queue) -> None:
    await submit(queue, "a")
    await cancel(queue, "a")
    await queue.redis.delete(queue.keys.result("a"))
    assert isinstance(await look(queue, "b1", drain=True), NotYet)
    assert await states(queue, "a") == ["expired"]


async def test_a_cancelled_id_may_be_submitted_again_once_its_result_expired(queue: Queue) -> None:
    await submit(queue, "a")
    await cancel(queue, "a")
    assert await submit(queue, "a") == ("answered",)
    await queue.redis.delete(queue.keys.result("a"))
    assert await submit(queue, "a") == ("queued",)
    claim = await board(queue, "b1")
    assert ids(claim) == ["a"]
    assert await deliver(queue, claim) == [True]


async def test_a_running_request_is_marked_for_its_worker(queue: Queue) -> None:
    await submit(queue, "a", "b")
    claim = await board(queue, "b1")
    assert await cancel(queue, "a") == "running"
    assert await queue.cancels(["a", "b"]) == {"a"}
    assert await status_of(queue, "a") == "running"
    await queue.deliver("b1", [answer(claim.seats[0], "cancelled")], ttl_s=60)
    assert await status_of(queue, "a") == "cancelled"


async def test_a_running_one_may_finish_before_its_worker_sees_the_mark(queue: Queue) -> None:
    """Q39: then it has succeeded, and a second cancel is too late."""
    await submit(queue, "a")
    claim = await board(queue, "b1")
    await cancel(queue, "a")
    await deliver(queue, claim)
    assert await cancel(queue, "a") == "answered"
    assert await status_of(queue, "a") == "succeeded"


async def test_an_answered_request_stays_as_it_is(queue: Queue) -> None:
    await submit(queue, "a")
    await deliver(queue, await board(queue, "b1"))
    before = await content(queue)
    assert await cancel(queue, "a") == "answered"
    assert await content(queue) == before


async def test_an_unknown_request_is_cancelled_should_it_come(queue: Queue) -> None:
    assert await cancel(queue, "a") == "unknown"
    await push(queue, "a", "b")
    claim = await board(queue, "b1", cap=1)
    assert [(seat.element.id, seat.cancelled) for seat in claim.seats] == [("a", True), ("b", False)]
    rows = [answer(claim.seats[0], "cancelled"), answer(claim.seats[1])]
    assert await queue.deliver("b1", rows, ttl_s=60) == [True, True]


async def test_a_mark_outlives_the_death_of_its_worker(queue: Queue) -> None:
    await submit(queue, "a")
    await board(queue, "b1")
    await cancel(queue, "a")
    await queue.release("b1")
    (seat,) = (await board(queue, "b2")).seats
    assert seat.cancelled


async def test_a_raw_request_that_nobody_has_looked_at_is_cancelled_at_its_claim(queue: Queue) -> None:
    await push(queue, "a")
    assert await cancel(queue, "a") == "unknown"
    (seat,) = (await board(queue, "b1")).seats
    assert seat.cancelled


async def test_a_raw_copy_of_a_cancelled_id_is_dropped(queue: Queue) -> None:
    await submit(queue, "a")
    await cancel(queue, "a")
    await push(queue, "a")
    assert isinstance(await look(queue, "b1", drain=True), NotYet)
    assert await queue.redis.llen(queue.keys.queue) == 0


async def test_cancelling_twice_changes_nothing(queue: Queue) -> None:
    await submit(queue, "a")
    await cancel(queue, "a")
    before = await content(queue)
    assert await cancel(queue, "a") == "answered"
    assert await content(queue) == before


async def test_who_waits_is_told_of_the_cancel(queue: Queue) -> None:
    await submit(queue, "a", reply="r1")
    k = queue.keys
    async with queue.redis.pubsub(ignore_subscribe_messages=True) as listener:
        await listen_to(listener, k.done("a"), k.reply("r1"))
        await cancel(queue, "a")
        said: dict[str, bytes] = {}
        async with asyncio.timeout(5):
            while len(said) < 2:
                if message := await listener.get_message(timeout=1):
                    said[message["channel"].decode()] = message["data"]
    assert said == {
        k.done("a"): b"cancelled",
        k.reply("r1"): b"[" + result("a", "cancelled") + b"]",
    }


@pytest.mark.parametrize("place", ["waiting", "stamped", "suspect", "running", "handed back", "unknown"])
async def test_a_cancel_in_any_state_ends_in_one_result(queue: Queue, place: str) -> None:
    """B20."""
    if place in ("unknown", "stamped"):
        await push(queue, "a")
    else:
        await submit(queue, "a")
    if place == "stamped":
        await queue.stamp()
    if place in ("running", "suspect", "handed back"):
        await board(queue, "b1")
    if place == "suspect":
        await queue.release("b1")
    if place == "handed back":
        await queue.hand_back("b1")
    await cancel(queue, "a")
    for name in ("b1", "b2"):
        claim = await look(queue, name, drain=True)
        if isinstance(claim, Claim):
            assert [seat.cancelled for seat in claim.seats] == [True]
            await queue.deliver(name, [answer(claim.seats[0], "cancelled")], ttl_s=60)
    assert await status_of(queue, "a") == "cancelled"
    assert (await queue.info()).counters["cancelled"] == 1


async def test_a_race_of_cancels_and_answers_never_yields_two_results(real_queue: Queue) -> None:
    """B20: a thousand times."""
    queue = real_queue
    for i in range(0, 1000, 20):
        names = [str(n) for n in range(i, i + 20)]
        await submit(queue, *names)
        claim = await board(queue, f"b{i}", cap=20)
        race = [queue.deliver(claim.batch, [answer(seat)], ttl_s=60) for seat in claim.seats]
        races = [each for pair in zip(race, [cancel(queue, name) for name in names], strict=True) for each in pair]
        await asyncio.gather(*races)
        first = await queue.results(names)
        await asyncio.gather(*(cancel(queue, name) for name in names))
        assert await queue.results(names) == first
    assert (await queue.info()).counters == {"succeeded": 1000}
