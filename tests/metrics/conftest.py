"""A depot as the workers' tests have it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from tests.worker.conftest import Depot
from tests.worker_process import WorkerProcess


@pytest.fixture
async def depot(any_redis_url: str) -> AsyncIterator[Depot]:
    depot = Depot(any_redis_url)
    yield depot
    await depot.stop()


@pytest.fixture
def start_process(any_redis_url: str) -> Iterator[Callable[..., WorkerProcess]]:
    """Start real worker processes; they are gone when the test ends."""
    started: list[WorkerProcess] = []

    def start(**settings: Any) -> WorkerProcess:
        started.append(WorkerProcess(any_redis_url, **settings))
        return started[-1]

    yield start
    for process in started:
        process.close()
