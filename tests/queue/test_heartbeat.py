"""Who is alive."""

from __future__ import annotations

from tests.queue.steps import content, later

from busload_shared.queue import Queue
from busload_shared.replies import WorkerInfo


async def names(queue: Queue) -> list[str]:
    return sorted(worker.name for worker in (await queue.info()).workers)


async def test_a_heartbeat_tells_what_the_worker_is_and_does(queue: Queue) -> None:
    info = WorkerInfo(name="w1", state="ready", engine="fake", batch="b1", batch_size=3, rows_per_s=12.5)
    assert await queue.heartbeat(info, ttl_s=5) == 1
    assert (await queue.info()).workers == (info,)


async def test_the_last_word_counts(queue: Queue) -> None:
    await queue.heartbeat(WorkerInfo(name="w1", state="starting"), ttl_s=5)
    await queue.heartbeat(WorkerInfo(name="w1", state="ready"), ttl_s=5)
    assert [worker.state for worker in (await queue.info()).workers] == ["ready"]


async def test_a_worker_that_fell_silent_is_taken_off_the_list(queue: Queue) -> None:
    await queue.heartbeat(WorkerInfo(name="silent", state="ready"), ttl_s=5)
    later(queue, 4000)
    await queue.heartbeat(WorkerInfo(name="alive", state="ready"), ttl_s=5)
    assert await queue.redis.zcard(queue.keys.workers) == 2
    later(queue, 1001)
    await queue.heartbeat(WorkerInfo(name="alive", state="ready"), ttl_s=5)
    assert await queue.redis.zrange(queue.keys.workers, 0, -1) == [b"alive"]


async def test_a_worker_whose_record_expired_is_not_shown(queue: Queue) -> None:
    await queue.heartbeat(WorkerInfo(name="w1", state="ready"), ttl_s=5)
    await queue.redis.delete(queue.keys.worker("w1"))
    assert await names(queue) == []


async def test_a_worker_that_says_goodbye_leaves_nothing(queue: Queue) -> None:
    await queue.heartbeat(WorkerInfo(name="w1", state="draining"), ttl_s=5)
    await queue.heartbeat(WorkerInfo(name="w2", state="ready"), ttl_s=5)
    await queue.farewell("w1")
    assert await names(queue) == ["w2"]
    await queue.farewell("w2")
    assert await content(queue) == {}


async def test_the_record_of_a_newer_worker_is_read_as_far_as_it_is_known(queue: Queue) -> None:
    await queue.heartbeat(WorkerInfo(name="w1", state="ready"), ttl_s=5)
    record = b'{"name": "w1", "state": "ready", "mood": "sunny"}'
    await queue.redis.set(queue.keys.worker("w1"), record, px=5000)
    assert await names(queue) == ["w1"]


async def test_fifty_workers_that_start_while_leases_are_swept_lose_nothing(queue: Queue) -> None:
    """Q6."""
    for i in range(50):
        await queue.heartbeat(WorkerInfo(name=f"w{i}", state="starting"), ttl_s=5)
        assert await queue.reclaim() == []
    assert len((await queue.info()).workers) == 50
