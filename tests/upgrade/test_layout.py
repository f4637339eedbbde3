"""Workers start only on keys of their own layout, and `busload migrate` changes keys while no worker runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from redis.asyncio import Redis
from tests.queue.steps import push, submit
from tests.redis_servers import Server
from tests.upgrade.next_version import STEP, letters_of

from busload_shared.connection import open_redis
from busload_shared.errors import RedisUnfit
from busload_shared.keys import Keys
from busload_shared.layout import FIRST, Found, Layout, Step
from busload_shared.queue import Queue
from busload_shared.replies import WorkerInfo
from busload_worker.startup import check_layout

WORKER = WorkerInfo(name="w", state="starting")


def layout_of(queue: Queue, *steps: Step) -> Layout:
    return Layout(queue.redis, queue.keys.queue, patience_s=0, steps=steps)


def silent(_to: int, _step: Step) -> None:
    """Nobody is told."""


def step(convert: Callable[[Redis, Keys], Awaitable[None]]) -> Step:
    return Step("a change", convert)


async def mark_of(queue: Queue) -> bytes | None:
    mark: bytes | None = await queue.redis.get(queue.keys.layout)
    return mark


async def test_a_new_queue_gets_the_layout_of_the_first_worker_and_others_are_refused(queue: Queue) -> None:
    await layout_of(queue, STEP).check()
    assert await mark_of(queue) == b"2"
    await layout_of(queue, STEP).check()
    with pytest.raises(
        RedisUnfit, match=r"have layout 2, and this version of Busload knows no more than 1: upgrade it"
    ):
        await layout_of(queue).check()
    with pytest.raises(
        RedisUnfit, match=r"have layout 2, this worker needs 3: stop the older workers.*busload migrate"
    ):
        await layout_of(queue, STEP, STEP).check()
    assert await mark_of(queue) == b"2"


async def test_a_queue_from_before_there_were_marks_has_the_first_layout(queue: Queue) -> None:
    await push(queue, "a")
    with pytest.raises(RedisUnfit, match="have layout 1, this worker needs 2"):
        await layout_of(queue, STEP).check()
    assert await mark_of(queue) == b"1"
    await layout_of(queue).check()


async def test_of_two_versions_that_start_together_on_a_new_queue_one_is_refused(server: Server) -> None:
    async with open_redis(server.url) as one, open_redis(server.url) as two:
        for number in range(20):
            name = f"busload:{number}"
            checks = [Layout(one, name).check(), Layout(two, name, steps=[STEP]).check()]
            refused = [isinstance(end, RedisUnfit) for end in await asyncio.gather(*checks, return_exceptions=True)]
            assert refused == ([False, True] if await one.get(Keys(name).layout) == b"1" else [True, False])


async def test_a_worker_starts_at_maxmemory_where_no_mark_can_be_written(real_queue: Queue) -> None:
    await real_queue.redis.config_set("maxmemory", 1)
    await layout_of(real_queue).check()
    assert await mark_of(real_queue) is None
    await real_queue.redis.config_set("maxmemory", 0)


@pytest.mark.parametrize("mark", [b"", b"0", b"two", b"1>", b"-1", b"1" * 30])
async def test_a_mark_that_no_version_wrote_is_refused(queue: Queue, mark: bytes) -> None:
    await queue.redis.set(queue.keys.layout, mark)
    for call in (layout_of(queue).check(), layout_of(queue, STEP).migrate(silent)):
        with pytest.raises(RedisUnfit, match="holds no layout's number"):
            await call


async def test_nothing_is_touched_where_nothing_is_to_do(queue: Queue) -> None:
    await layout_of(queue).migrate(silent)
    assert await queue.redis.keys("*") == []


async def test_each_step_is_taken_once_and_in_order(queue: Queue) -> None:
    await submit(queue, "a")
    taken: list[Any] = []

    async def note(redis: Redis, keys: Keys) -> None:
        taken.append((await redis.get(keys.layout), keys.queue))

    steps = [step(note), step(note)]
    told: list[int] = []
    await layout_of(queue, *steps).migrate(lambda to, _: told.append(to))
    await layout_of(queue, *steps).migrate(lambda to, _: told.append(to))
    assert told == [2, 3]
    assert taken == [(b"1>2", queue.keys.queue), (b"2>3", queue.keys.queue)]
    assert await mark_of(queue) == b"3"
    assert not await queue.redis.exists(queue.keys.migrating)


async def test_a_step_that_failed_keeps_workers_out_until_it_was_taken(queue: Queue) -> None:
    await submit(queue, "a")
    fails = True

    async def fail_once(_redis: Redis, _keys: Keys) -> None:
        if fails:
            raise ConnectionError("gone")

    newer = layout_of(queue, step(fail_once))
    with pytest.raises(ConnectionError):
        await newer.migrate(silent)
    assert await newer.find() == Found(FIRST, under_way=True)
    with pytest.raises(RedisUnfit, match="are being changed, or that was interrupted: run `busload migrate`"):
        await newer.check()
    with pytest.raises(RedisUnfit, match="upgrade it"):
        await layout_of(queue).check()
    fails = False
    await newer.migrate(silent)
    await newer.check()


async def test_while_a_worker_lives_nothing_is_changed(queue: Queue) -> None:
    await submit(queue, "a")
    await layout_of(queue).check()
    await queue.heartbeat(WORKER, ttl_s=15)
    with pytest.raises(RedisUnfit, match=r"1 workers of busload:test are up \(w\): stop them first"):
        await layout_of(queue, STEP).migrate(silent)
    assert await mark_of(queue) == b"1"
    await queue.farewell("w")
    await layout_of(queue, STEP).migrate(silent)
    assert await mark_of(queue) == b"2"


async def test_a_worker_that_starts_while_a_change_begins_is_seen_or_sees_it(queue: Queue) -> None:
    """Either looks after it has shown itself."""
    await submit(queue, "a")
    await layout_of(queue).check()
    newer = layout_of(queue, STEP)
    beat, mark = queue.heartbeat, newer._mark

    async def change_begins(info: WorkerInfo, *, ttl_s: float) -> int:
        await mark("1>2")
        return await beat(info, ttl_s=ttl_s)

    queue.heartbeat = change_begins  # type: ignore[method-assign]
    with pytest.raises(RedisUnfit, match="have layout 2"):
        await check_layout(queue, WORKER)
    assert (await queue.info()).workers == ()

    async def worker_came(text: str) -> None:
        await mark(text)
        if text == "1>2":
            await beat(WORKER, ttl_s=15)

    await mark("1")
    newer._mark = worker_came  # type: ignore[method-assign]
    with pytest.raises(RedisUnfit, match="workers of busload:test are up"):
        await newer.migrate(silent)
    assert await mark_of(queue) == b"1"


async def test_one_change_at_a_time(queue: Queue) -> None:
    await submit(queue, "a")
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_redis: Redis, _keys: Keys) -> None:
        begun.set()
        await go_on.wait()

    first = asyncio.create_task(layout_of(queue, step(slow)).migrate(silent))
    await begun.wait()
    with pytest.raises(RedisUnfit, match="another `busload migrate` is at work, or was killed: try again in 20 s"):
        await layout_of(queue, step(slow)).migrate(silent)
    go_on.set()
    await first
    assert await mark_of(queue) == b"2"


async def test_the_letters_are_where_the_new_layout_wants_them(real_queue: Queue) -> None:
    await real_queue.redis.rpush(real_queue.keys.dead, "b", "a")
    await layout_of(real_queue, STEP).migrate(silent)
    assert sorted(await real_queue.redis.hvals(letters_of(real_queue.keys))) == [b"a", b"b"]
    await real_queue.redis.delete(letters_of(real_queue.keys))
