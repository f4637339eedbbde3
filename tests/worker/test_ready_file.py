"""The ready file says that this worker can take a batch now: it follows claims, not that Redis answers something."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NoReturn

import pytest
from tests.redis_servers import Server
from tests.waiting import wait_until
from tests.worker.conftest import Depot

from busload_shared.errors import BusloadUnavailable
from busload_worker import housekeeping


async def becomes_ready(path: Path, *, ready: bool) -> None:
    async def as_wanted() -> bool:
        return await asyncio.to_thread(path.exists) is ready

    await wait_until(as_wanted, timeout_s=30, what=f"the ready file is {'there' if ready else 'gone'}")


@pytest.fixture
async def path(depot: Depot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The ready file of a worker that is ready, and is stale after a second."""
    monkeypatch.setattr(housekeeping, "STALE_S", 1.0)
    path = tmp_path / "ready"
    await depot.start(ready_file=str(path))
    await becomes_ready(path, ready=True)
    return path


async def test_a_worker_whose_claims_fail_is_not_ready_though_its_heartbeat_succeeds(
    depot: Depot, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def failing(*_: object, **__: object) -> NoReturn:
        raise BusloadUnavailable("claims fail")

    (worker,) = depot.workers
    with monkeypatch.context() as broken:
        broken.setattr(worker._queue, "claim", failing)
        await becomes_ready(path, ready=False)
        assert [each.state for each in (await depot.queue.info()).workers] == ["ready"]
    await becomes_ready(path, ready=True)


async def test_a_worker_is_not_ready_while_redis_is_away_and_ready_again_after(
    depot: Depot, path: Path, any_server: Server
) -> None:
    any_server.stop()
    await becomes_ready(path, ready=False)
    any_server.start()
    await becomes_ready(path, ready=True)


async def test_a_worker_is_not_ready_on_a_replica(depot: Depot, path: Path, any_server: Server) -> None:
    with any_server.client() as client:
        client.execute_command("REPLICAOF", "127.0.0.1", "1")
        await becomes_ready(path, ready=False)
        assert client.ping()
        client.execute_command("REPLICAOF", "NO", "ONE")
    await becomes_ready(path, ready=True)


async def test_an_idle_worker_that_stops_takes_its_ready_file_along(depot: Depot, path: Path) -> None:
    depot.workers[0].stop()
    await becomes_ready(path, ready=False)
