"""The loop on a real Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from tests.queue.steps import submit
from tests.waiting import wait_until

from busload.autoscale.drivers import ScalingFailed
from busload.autoscale.loop import Autoscaler
from busload.autoscale.rules import Rules
from busload.autoscale.telling import Told
from busload.operating.reaching import queue_on
from busload_shared.queue import Queue

RULES = Rules(20.0, 0, 4, quiet_s=0.0, idle_s=3600.0, step=1.0, start_s=3600.0)


class Recorder:
    """A driver, and what was told."""

    def __init__(self, *, fails: int = 0) -> None:
        self.scaled: list[int] = []
        self.told: list[Told] = []
        self.complaints: list[str] = []
        self._fails = fails

    async def scale(self, workers: int) -> None:
        self.scaled.append(workers)
        if self._fails:
            self._fails -= 1
            raise ScalingFailed("the tool said no")


def autoscaler(queue: Queue, recorder: Recorder, rules: Rules = RULES) -> Autoscaler:
    return Autoscaler(queue, rules, recorder, recorder.told.append, recorder.complaints.append)


async def test_a_request_wakes_a_worker_and_it_is_asked_for_once(queue: Queue) -> None:
    recorder = Recorder()
    scaler = autoscaler(queue, recorder)
    await scaler.look()
    assert recorder.scaled == []
    await submit(queue, "1")
    await scaler.look()
    await scaler.look()
    assert recorder.scaled == [1]
    assert [told.workers for told in recorder.told] == [0, 1, 1]
    assert recorder.told[1].line.startswith("0 -> 1 worker: there is work and no worker (1 wait")


async def test_what_the_driver_could_not_do_is_tried_again_at_the_next_look(queue: Queue) -> None:
    recorder = Recorder(fails=2)
    scaler = autoscaler(queue, recorder)
    await submit(queue, "1")
    for _ in range(4):
        await scaler.look()
    assert recorder.scaled == [1, 1, 1]
    assert recorder.complaints == ["the tool said no"] * 2


async def test_workers_that_do_not_come_are_asked_for_again(queue: Queue) -> None:
    recorder = Recorder()
    scaler = autoscaler(queue, recorder, replace(RULES, start_s=0.0))
    await submit(queue, "1")

    async def asked_twice() -> bool:
        await scaler.look()
        return len(recorder.scaled) >= 2

    await wait_until(asked_twice, what="a second after the first time")
    assert set(recorder.scaled) == {1}


async def test_a_redis_that_is_away_changes_nothing_and_the_loop_goes_on() -> None:
    recorder = Recorder()
    async with queue_on("redis://127.0.0.1:1/0", "busload:default", patience_s=0.0) as queue:
        scaler = autoscaler(queue, recorder)
        async with running(scaler):
            await wait_until(lambda: _at_least(recorder.complaints, 2), what="it complained twice")
    assert recorder.scaled == []
    assert recorder.complaints[0].startswith("the workers stay as they are: ")


async def test_it_ends_when_it_is_told_to_even_while_the_driver_is_at_work(queue: Queue) -> None:
    class Slow(Recorder):
        async def scale(self, workers: int) -> None:
            self.scaled.append(workers)
            await asyncio.Event().wait()

    recorder = Slow()
    await submit(queue, "1")
    async with running(autoscaler(queue, recorder)):
        await wait_until(lambda: _at_least(recorder.scaled, 1), what="the driver is at work")


@asynccontextmanager
async def running(scaler: Autoscaler) -> AsyncIterator[None]:
    """Until the block ends; then it must end by itself."""
    stop = asyncio.Event()
    task = asyncio.create_task(scaler.run(stop, interval_s=0.01))
    try:
        yield
    finally:
        stop.set()
        async with asyncio.timeout(20):
            await task


async def _at_least(things: list[str] | list[int], number: int) -> bool:
    return len(things) >= number
