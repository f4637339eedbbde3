"""From a backup made while all ran: what was answered stays, what was not is answered once, nothing is stuck."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from tests.conftest import missing
from tests.queue.steps import body
from tests.redis_servers import WANTED, Server, Servers
from tests.upgrade.announced import announced
from tests.upgrade.backups import LOG, restored, saved
from tests.upgrade.conftest import QUEUE
from tests.waiting import wait_until
from tests.worker_process import WorkerProcess

from busload import AsyncClient
from busload_shared.keys import Keys
from busload_shared.queue import Queue

KEYS = Keys(QUEUE)
Start = Callable[..., WorkerProcess]
SETTINGS: dict[str, Any] = {"max_batch_size": 8, "fake_per_token_ms": 4, "lease_s": 5}
"""The lease in the backup is one piece of evidence against `lone`; a worker that is held up for as long while it runs
again would be the other."""
LATE_S = 4.0


@pytest.fixture(params=["7.0", "8.2"])
def logging_server(request: pytest.FixtureRequest, redis_servers: Servers) -> Iterator[Server]:
    version = request.param
    if version not in redis_servers:
        missing(f"redis-server {version}", WANTED[version])
    server = Server(redis_servers.binaries[version], version, LOG)
    server.start()
    yield server
    server.remove()


async def test_a_backup_of_a_busy_queue_is_restored_twice_and_each_time_every_request_ends_once(
    logging_server: Server, start: Start, tmp_path: Path
) -> None:
    backup, deadline_ms = await backed_up_under_load(logging_server, start, tmp_path / "backup.rdb")
    for _ in range(2):
        server = restored(logging_server, logging_server.binary, backup)
        try:
            await everything_ends(server, start, deadline_ms)
        finally:
            server.remove()


async def backed_up_under_load(server: Server, start: Start, file: Path) -> tuple[Path, float]:
    """Then more is answered and more is sent, and all is lost. Returns when the late ones' deadline is, Unix ms."""
    async with Redis(port=server.port) as redis, AsyncClient(server.url) as client:
        workers = [await start("newer", server.url, **SETTINGS).ready() for _ in range(2)]
        await redis.lpush(QUEUE, body("lone", max_tokens=1600))

        async def lone_runs() -> bool:
            return (await client.status("lone")).state == "running"

        await wait_until(lone_runs, what="one runs alone")
        await redis.lpush(QUEUE, "no JSON")
        await client.submit_many({"id": f"plain-{n}", "prompt": "p", "max_tokens": 40} for n in range(200))
        more = [{"id": f"urgent-{n}", "prompt": "p", "max_tokens": 40, "priority": 9} for n in range(8)]
        more += [{"id": f"kept-{n}", "prompt": "p", "max_tokens": 4, "ttl_s": 600.0} for n in range(4)]
        more += [{"id": f"late-{n}", "prompt": "p", "max_tokens": 4, "ttl_s": LATE_S} for n in range(4)]
        await client.submit_many(more)
        deadline_ms = await redis_ms(redis) + LATE_S * 1000
        await answered(redis, 40)
        saved(server, file)
        await client.submit_many({"id": f"after-{n}", "prompt": "p"} for n in range(4))
        await answered(redis, 64)
    for worker in workers:
        worker.signal(signal.SIGKILL)
        await worker.ended()
    server.stop()
    return file, deadline_ms


async def everything_ends(server: Server, start: Start, deadline_ms: float) -> None:
    async with Redis(port=server.port) as redis, AsyncClient(server.url) as client, announced(server) as counted:

        async def late() -> bool:
            return await redis_ms(redis) > deadline_ms

        await wait_until(late, what="the deadline has passed meanwhile")
        before, left = await results_of(redis), await left_of(redis)

        assert len(before) >= 40
        assert left >= {"lone", *(f"late-{n}" for n in range(4))}
        assert await redis.hget(KEYS.batches, (await client.status("lone")).batch) is not None
        for _ in range(2):
            start("newer", server.url, **SETTINGS)
        await wait_until(lambda: counted.has(len(left)), timeout_s=90, what="all that was left is answered")
        after = await results_of(redis)
        assert {name: after[name] for name in before} == before
        assert counted.by_id == Counter(left)
        assert set(after) == set(before) | left
        ends = {name: json.loads(after[name])["status"] for name in left}
        assert {name for name, status in ends.items() if status != "succeeded"} == {f"late-{n}" for n in range(4)}
        assert {ends[f"late-{n}"] for n in range(4)} == {"expired"}
        await nothing_is_left_over(redis, len(after))
        assert (await client.status("after-0")).state == "unknown"
        assert (await client.generate({"id": "after-0", "prompt": "p"}, timeout_s=30)).status == "succeeded"


async def nothing_is_left_over(redis: Redis, results: int) -> None:
    """The counters go on from the backup's, so they count each result once."""
    info = await Queue(redis, QUEUE).info()
    assert (info.waiting, info.retry, info.inflight, info.leases, info.dead) == (0, 0, 0, 0, 1)
    ends = sum(info.counters.get(name, 0) for name in ("succeeded", "expired"))
    assert ends == results
    assert info.counters["failed"] == 1  # what was no JSON has no id, and so no result


async def results_of(redis: Redis) -> dict[str, bytes]:
    prefix = KEYS.result("")
    names = [key.decode() async for key in redis.scan_iter(prefix + "*")]
    bodies = await redis.mget(names)
    return {name.removeprefix(prefix): text for name, text in zip(names, bodies, strict=True)}


async def left_of(redis: Redis) -> set[str]:
    """The ids of all that the queue knows and has not answered."""
    prefix = KEYS.state("")
    known = {key.decode().removeprefix(prefix) async for key in redis.scan_iter(prefix + "*")}
    return known - set(await results_of(redis))


async def answered(redis: Redis, many: int) -> None:
    async def enough() -> bool:
        return int(await redis.hget(KEYS.stats, "succeeded") or 0) >= many

    await wait_until(enough, timeout_s=60, what=f"{many} are answered")


async def redis_ms(redis: Redis) -> float:
    seconds, microseconds = await redis.time()
    return float(seconds) * 1000 + float(microseconds) / 1000
