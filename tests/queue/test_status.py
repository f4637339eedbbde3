"""A reader can always tell apart: unknown, waiting, running, answered, expired."""

from __future__ import annotations

from tests.queue.steps import answer, board, content, deliver, states, submit

from busload_shared.queue import Queue
from busload_shared.replies import RequestStatus


async def test_every_state_of_a_request_is_told_in_one_call(queue: Queue) -> None:
    await submit(queue, "expired", "answered")
    await deliver(queue, await board(queue, "b1"))
    await queue.redis.delete(queue.keys.result("expired"))
    await submit(queue, "running")
    await board(queue, "b2")
    await submit(queue, "waiting")
    names = ["unknown", "waiting", "running", "answered", "expired"]
    assert await states(queue, *names) == names


async def test_a_running_request_tells_its_batch(queue: Queue) -> None:
    await submit(queue, "a")
    await board(queue, "host:1:b-7")
    assert await queue.status(["a"]) == [RequestStatus("running", batch="host:1:b-7")]


async def test_asking_changes_nothing(queue: Queue) -> None:
    await submit(queue, "a", "b")
    await deliver(queue, await board(queue, "b1", cap=1))
    before = await content(queue)
    await states(queue, "a", "b", "c")
    assert await content(queue) == before


async def test_nobody_to_ask_about_is_no_error(queue: Queue) -> None:
    assert await queue.status([]) == []
    assert await queue.results([]) == []
    assert await queue.cancels([]) == set()


async def test_a_request_whose_flight_was_deleted_by_hand_ran_and_has_no_result_any_more(queue: Queue) -> None:
    await submit(queue, "a")
    await board(queue, "b1")
    await queue.redis.delete(queue.keys.inflight)
    assert await states(queue, "a") == ["expired"]


async def test_stored_results_come_in_the_order_asked(queue: Queue) -> None:
    await submit(queue, "a", "b")
    claim = await board(queue, "b1")
    await deliver(queue, claim)
    a, b = (answer(seat).result for seat in claim.seats)
    assert await queue.results(["b", "never", "a"]) == [b, None, a]
