"""The autoscaler with real workers, on a real Redis: from none up, and down to none again, and nothing is lost."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Iterator

import pytest
from tests.worker_process import WorkerProcess

from busload import AsyncClient
from busload.autoscale.loop import Autoscaler
from busload.autoscale.rules import Rules
from busload.autoscale.telling import Told
from busload_shared.queue import Queue

RULES = Rules(2.0, 0, 3, quiet_s=0.2, idle_s=0.2, step=1.0, start_s=0.0)
REQUESTS = 240


class ProcessDriver:
    """Starts workers as processes, and stops them as a supervisor does: with SIGTERM."""

    def __init__(self, redis_url: str) -> None:
        self._redis_url = redis_url
        self.up: list[WorkerProcess] = []
        self.gone: list[WorkerProcess] = []
        self.most = 0

    async def scale(self, workers: int) -> None:
        for _ in range(workers - len(self.up)):
            settings = {"fake_overhead_ms": 100, "max_batch_size": 4, "max_wait_ms": 1, "worker_name": f"w{self.most}"}
            self.most += 1
            self.up.append(WorkerProcess(self._redis_url, **settings))
        for process in self.up[workers:]:
            process.signal(signal.SIGTERM)
        self.gone += self.up[workers:]
        self.up = self.up[:workers]

    def close(self) -> None:
        for process in self.up + self.gone:
            process.close()


@pytest.fixture
def driver(any_redis_url: str) -> Iterator[ProcessDriver]:
    driver = ProcessDriver(any_redis_url)
    yield driver
    driver.close()


async def test_workers_come_and_go_and_each_request_is_answered_once(
    any_redis_url: str, queue: Queue, driver: ProcessDriver
) -> None:
    told: list[Told] = []
    stop = asyncio.Event()
    scaler = Autoscaler(queue, RULES, driver, told.append, lambda _: None)
    running = asyncio.create_task(scaler.run(stop, interval_s=0.1))
    try:
        async with AsyncClient(any_redis_url) as client, asyncio.timeout(120):
            sent = await client.submit_many({"id": f"r{n}", "prompt": "x", "max_tokens": 2} for n in range(REQUESTS))
            results = [result async for result in client.as_completed([one.id for one in sent])]
            while told[-1].workers or driver.up:  # noqa: ASYNC110 - each look is an event, and there is none to await
                await asyncio.sleep(0.05)
    finally:
        stop.set()
        await running
    assert Counter(result.status for result in results) == {"succeeded": REQUESTS}
    assert len({result.id for result in results}) == REQUESTS
    assert 2 <= max(one.workers for one in told) <= 3
    for process in driver.gone:
        assert await process.ended() == 0, process.log()
    info = await queue.info()
    assert (info.waiting, info.retry, info.inflight) == (0, 0, 0)
    assert info.counters["succeeded"] == REQUESTS
