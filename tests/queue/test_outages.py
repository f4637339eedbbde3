"""While Redis is away nobody hammers on its door, and when it is back everybody goes on by themselves."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.conftest import missing
from tests.queue.load import Load, queue_at, settled, worker_on
from tests.redis_groups import MASTER
from tests.redis_servers import WANTED, Server, Servers

from busload import AsyncClient, BusloadUnavailable

QUEUE = "busload:test"
OUTAGE_S = 3.0
FEW = 100
"""Connections in that time that are no hot loop: four or five parts of a process, a second's pause at the longest."""


@pytest.fixture
def lasting(redis_servers: Servers) -> Iterator[Server]:
    """A server that has all it acknowledged after a restart."""
    version = redis_servers.first()
    if version is None:
        missing("redis-server", " or ".join(WANTED.values()))
    server = Server(redis_servers.binaries[version], version, {"appendonly": "yes", "appendfsync": "always"})
    server.start()
    yield server
    server.remove()


async def test_ten_restarts_under_load_and_each_time_all_goes_on_within_five_seconds(lasting: Server) -> None:
    """Q22."""
    gaps = []
    async with (
        worker_on(lasting.url, QUEUE) as worker,
        AsyncClient(lasting.url, queue=QUEUE, patience_s=30) as client,
        Load(client) as load,
    ):
        for _ in range(10):
            await load.goes_on(more=12)
            lasting.restart()
            back = time.monotonic()
            await load.goes_on(more=12)
            gaps.append(time.monotonic() - back)
        await load.end()
        async with queue_at(lasting.url, QUEUE) as queue:
            await settled(queue)
            assert (await queue.info()).counters["succeeded"] == len(load.results)
        assert load.errors == []
        assert worker.process.poll() is None
    assert max(gaps) < 5, gaps


class Door:
    """Stands where a Redis or a sentinel stood, and slams at everybody."""

    def __init__(self) -> None:
        self.knocks = 0

    async def slam(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.knocks += 1
        writer.close()

    @asynccontextmanager
    async def at(self, port: int) -> AsyncIterator[None]:
        listening = await asyncio.start_server(self.slam, "127.0.0.1", port)
        try:
            yield
        finally:
            listening.close()
            await listening.wait_closed()


async def test_a_worker_knocks_now_and_then(lasting: Server) -> None:
    door = Door()
    async with worker_on(lasting.url, QUEUE) as worker:
        lasting.stop()
        async with door.at(lasting.port):
            await asyncio.sleep(OUTAGE_S)
        assert 3 <= door.knocks <= FEW
        lasting.start()
        async with AsyncClient(lasting.url, queue=QUEUE) as client:
            assert (await client.generate(prompt="p", timeout_s=20)).status == "succeeded"
        assert worker.process.poll() is None


def cpu_s(pid: int) -> float:
    """Processor time of a process so far."""
    words = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


async def test_a_worker_that_is_refused_sleeps(lasting: Server) -> None:
    async with worker_on(lasting.url, QUEUE) as worker:
        lasting.stop()
        before = cpu_s(worker.process.pid)
        await asyncio.sleep(OUTAGE_S)
        assert cpu_s(worker.process.pid) - before < OUTAGE_S / 3


@pytest.mark.parametrize("form", ["redis://{}/0", "redis+sentinel://{}/" + MASTER, "redis+cluster://{}"])
async def test_a_client_knocks_now_and_then_however_many_wait(form: str) -> None:
    door = Door()
    listening = await asyncio.start_server(door.slam, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    async with AsyncClient(form.format(f"127.0.0.1:{port}"), queue=QUEUE, patience_s=OUTAGE_S) as client:
        calls = [client.generate(id=str(i), prompt="p") for i in range(100)]
        calls += [client.result(f"r{i}", 30) for i in range(100)]
        ended = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(each) for each in ended} == {BusloadUnavailable}
        assert 3 <= door.knocks <= FEW
    listening.close()


async def test_a_client_that_is_refused_knocks_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    knocks = 0

    async def refused(**_: object) -> None:
        nonlocal knocks
        knocks += 1
        raise ConnectionRefusedError(111, "refused")

    monkeypatch.setattr(asyncio, "open_connection", refused)
    async with AsyncClient("redis://127.0.0.1:1/0", queue=QUEUE, patience_s=OUTAGE_S) as client:
        calls = [client.generate(id=str(i), prompt="p") for i in range(100)]
        assert {type(each) for each in await asyncio.gather(*calls, return_exceptions=True)} == {BusloadUnavailable}
    assert 3 <= knocks <= FEW
