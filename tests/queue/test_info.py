"""The state of the queue at one moment."""

from __future__ import annotations

from tests.conftest import START_MS
from tests.queue.steps import board, bury, content, deliver, later, push, submit

from busload_shared.queue import Queue
from busload_shared.replies import WorkerInfo


async def test_an_empty_queue_has_no_ages(queue: Queue) -> None:
    info = await queue.info()
    assert (info.queue, info.now_ms) == (queue.keys.queue, START_MS)
    assert (info.waiting, info.retry, info.inflight, info.leases, info.dead) == (0, 0, 0, 0, 0)
    assert (info.oldest_waiting_ms, info.oldest_retry_ms, info.oldest_inflight_ms) == (None, None, None)
    assert (info.workers, info.counters, info.expected_wait_s) == ((), {}, None)


async def test_waiting_suspects_and_flights_are_counted_apart_with_their_own_ages(queue: Queue) -> None:
    """Q47: nobody hides behind another's age."""
    await submit(queue, "suspect-1", "suspect-2")
    await board(queue, "b1")
    later(queue, 10)
    await submit(queue, "running")
    await board(queue, "b2")
    await queue.release("b1")
    later(queue, 20)
    await submit(queue, "waiting")
    later(queue, 5)
    info = await queue.info()
    assert (info.waiting, info.retry, info.inflight, info.leases) == (1, 2, 1, 1)
    assert (info.oldest_waiting_ms, info.oldest_retry_ms, info.oldest_inflight_ms) == (5, 35, 25)


async def test_a_raw_element_has_no_age_until_it_is_stamped(queue: Queue) -> None:
    await push(queue, "a")
    assert (await queue.info()).oldest_waiting_ms is None
    await queue.stamp()
    later(queue, 3)
    assert (await queue.info()).oldest_waiting_ms == 3


async def test_a_stamp_from_the_future_has_age_zero(queue: Queue) -> None:
    await submit(queue, "a")
    later(queue, -100)
    assert (await queue.info()).oldest_waiting_ms == 0


async def test_counters_count_requests_not_calls(queue: Queue) -> None:
    await submit(queue, "a", "b")
    claim = await board(queue, "b1")
    await deliver(queue, claim)
    await deliver(queue, claim)
    await submit(queue, "c")
    await bury(queue, await board(queue, "b2"))
    info = await queue.info()
    assert info.counters == {"succeeded": 2, "failed": 1}
    assert info.dead == 1


async def test_looking_changes_nothing(queue: Queue) -> None:
    await push(queue, "a")
    await submit(queue, "b")
    before = await content(queue)
    await queue.info()
    assert await content(queue) == before


async def test_the_expected_wait_follows_from_what_the_ready_workers_do(queue: Queue) -> None:
    await submit(queue, *"abcdef")
    for name, state, rate in (("w1", "ready", 2.0), ("w2", "ready", 1.0), ("w3", "draining", 9.0)):
        await queue.heartbeat(WorkerInfo(name=name, state=state, rows_per_s=rate), ttl_s=5)
    info = await queue.info()
    assert (info.rows_per_s, info.expected_wait_s) == (3.0, 2.0)
