"""A worker tells of its last batches, for whoever watches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.waiting import wait_until
from tests.worker.conftest import Depot

from busload_shared.errors import BusloadUnavailable
from busload_shared.past_batch import PAST_BATCHES_KEPT, PastBatch
from busload_shared.queue import Queue

Make = Callable[..., dict[str, Any]]


async def told(depot: Depot, batches: int) -> tuple[PastBatch, ...]:
    """What the worker tells once it has run so many, or as many as it tells of, and has told of the last."""

    async def all_told() -> tuple[PastBatch, ...]:
        [worker] = depot.workers
        if worker.vitals.batches_done < batches or not worker.vitals.past_is_told:
            return ()
        return (await depot.queue.past(["w1"])).get("w1", ())

    return await wait_until(all_told, what=f"{batches} batches are told of")


@pytest.mark.parametrize("release", ["row", "batch"])
async def test_a_batch_is_told_with_its_wait_run_and_held_time(release: str, depot: Depot, request_of: Make) -> None:
    await depot.start(release=release, max_batch_size=4, fake_overhead_ms=10, fake_per_token_ms=2)
    await depot.push(request_of("short", max_tokens=5), request_of("long", max_tokens=105))
    result = await depot.result("long")
    assert result.batch is not None
    assert result.timing is not None
    [past] = await told(depot, 1)
    assert (past.batch, past.size, past.trigger, past.unanswered) == (result.batch.id, 2, "timeout", 0)
    assert past.claimed_ms == result.timing.claimed_ms
    assert past.waited_ms == pytest.approx(result.timing.claimed_ms - result.timing.enqueued_ms, abs=0.01)
    assert past.run_ms == pytest.approx(result.timing.run_ms, rel=0.2)
    assert past.run_ms >= 220
    assert past.claimed_ms + past.run_ms <= past.ended_ms
    held = (await depot.result("short")).timing
    assert held is not None
    assert past.held_ms == held.held_ms
    assert past.held_ms >= 190 if release == "batch" else past.held_ms == 0


async def test_only_the_last_are_told(depot: Depot, request_of: Make) -> None:
    await depot.start(max_batch_size=1)
    names = [f"r{number}" for number in range(PAST_BATCHES_KEPT + 4)]
    await depot.push(*map(request_of, names))
    ids = [(await depot.result(name)).batch for name in names]
    past = await told(depot, len(names))
    assert [one.batch for one in past] == [batch.id for batch in ids[4:] if batch]


async def test_a_batch_that_died_tells_how_many_rows_went_back(depot: Depot, request_of: Make) -> None:
    await depot.start(max_batch_size=4, engine_host="process", fake_overhead_ms=5)
    await depot.push(request_of("good"), request_of("bad", metadata={"fake": "exit"}), request_of("good-too"))
    assert (await depot.result("good")).status == "succeeded"
    first = (await told(depot, 1))[0]
    assert (first.size, first.unanswered) == (3, 3)


async def test_news_are_told_once_and_kept_until_redis_takes_them(
    depot: Depot, request_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = await depot.start()
    await depot.push(request_of("r1"))
    [first] = await told(depot, 1)
    key = depot.queue.keys.past("w1")
    assert await depot.redis.pttl(key) > 0
    await depot.redis.delete(key)
    await worker._housekeeper.look_around()
    assert await depot.queue.past(["w1"]) == {}, "there is no news"

    async def refused(*_: Any, **__: Any) -> None:
        raise BusloadUnavailable("away")

    with monkeypatch.context() as patch:
        patch.setattr(Queue, "tell_past", refused)
        worker.vitals.past_is_told = False
        await worker._housekeeper.look_around()
        assert not worker.vitals.past_is_told
    await worker._housekeeper.look_around()
    assert await depot.queue.past(["w1"]) == {"w1": (first,)}


async def test_what_no_worker_wrote_is_no_news(depot: Depot) -> None:
    await depot.redis.set(depot.queue.keys.past("w2"), b"\xff{")
    assert await depot.queue.past([]) == {}
    assert await depot.queue.past(["w1", "w2"]) == {}
