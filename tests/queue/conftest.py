"""What the client's tests share: the miniature worker, and a client that bears a slow machine."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.conftest import QUEUE
from tests.queue.desk import Desk, assert_nobody_waits

from busload import AsyncClient


@pytest.fixture
async def client(redis_url: str) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(redis_url, queue=QUEUE, patience_s=20) as client:
        yield client
        assert_nobody_waits(client)


@pytest.fixture
async def desk(redis_url: str) -> AsyncIterator[Desk]:
    async with Desk(redis_url, QUEUE) as desk:
        yield desk
