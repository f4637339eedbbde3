"""What is in flight in a backup looks like the work of dead workers, and proves nothing against its rows."""

from __future__ import annotations

from tests.queue.steps import board, later, submit

from busload_shared.queue import Queue


async def lone_deaths_after(queue: Queue, *, ms: float) -> int:
    """One in a batch of its own, whose lease of a second ran out, and so much later somebody looks."""
    await submit(queue, "a")
    await board(queue, "b1", lease=1000)
    later(queue, 1000 + ms)
    (taken,) = await queue.reclaim()
    assert taken.rows == 1
    (seat,) = (await board(queue, "b2")).seats
    assert seat.element.attempts == 1
    return seat.element.lone_deaths


async def test_a_lone_request_is_held_to_have_died_by_a_lease_that_ran_out_a_while_ago(queue: Queue) -> None:
    assert await lone_deaths_after(queue, ms=599_000) == 1


async def test_a_lone_request_is_not_held_to_have_died_by_a_lease_that_ran_out_long_ago(queue: Queue) -> None:
    assert await lone_deaths_after(queue, ms=601_000) == 0
