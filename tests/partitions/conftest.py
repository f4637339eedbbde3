"""A queue of four partitions on one real server, with its clock held."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.conftest import QUEUE, START_MS
from tests.redis_servers import Server

from busload_shared.opening import open_queue
from busload_shared.partitions.partitioned import PartitionedQueue

COUNT = 4


@pytest.fixture
async def parted(server: Server) -> AsyncIterator[PartitionedQueue]:
    queue = open_queue(server.url, QUEUE, partitions=COUNT, patience_s=0.0)
    assert isinstance(queue, PartitionedQueue)
    queue.hold_clock(START_MS)
    yield queue
    await queue.close()
