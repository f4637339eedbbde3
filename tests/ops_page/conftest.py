"""A station: a Redis, two workers and a gateway with an operations page, real processes, and a real browser."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from tests.conftest import missing
from tests.gateway.gateway_process import GatewayProcess
from tests.ops_page.browser import Browser, installed
from tests.ops_page.driving import seen, sign_in
from tests.ops_page.keys import OPS_KEY, keys_toml
from tests.redis_servers import WANTED, Server, Servers
from tests.worker_process import WorkerProcess

from busload_shared.connection import open_redis
from busload_shared.queue import Queue

QUEUE = "busload:default"


@dataclass(frozen=True)
class Station:
    """All of it, up. `ann` is an operator's key of the keys file, `shop` that of a mere caller."""

    gateway: GatewayProcess
    redis: Server
    ann: str
    shop: str

    @property
    def url(self) -> str:
        return self.gateway.url

    def bearer(self, key: str = OPS_KEY) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}"}


@pytest.fixture(scope="session")
def station(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Station]:
    servers = Servers()
    version = servers.first()
    if version is None:
        missing("redis-server", " or ".join(WANTED.values()))
    server = servers.get(version)
    file = tmp_path_factory.mktemp("ops") / "keys.toml"
    secrets = keys_toml(file, ann=True, shop=False)
    curve = {"fake_overhead_ms": 30, "fake_per_token_ms": 2, "max_batch_size": 4}
    workers = [
        WorkerProcess(server.url, worker_name="row", max_wait_ms=20, **curve),
        WorkerProcess(server.url, worker_name="whole", max_wait_ms=20, release="batch", **curve),
    ]
    gateway = GatewayProcess(
        server.url,
        keys_file=file,
        ops_key=OPS_KEY,
        ops_queues=f"{QUEUE},busload:other,busload:hostile",
        ops_session_secret="s" * 32,
    )
    try:
        asyncio.run(_up(workers))
        yield Station(gateway.listening(), server, secrets["ann"], secrets["shop"])
    finally:
        gateway.close()
        for worker in workers:
            worker.close()
        servers.remove()


async def _up(workers: list[WorkerProcess]) -> None:
    for worker in workers:
        await worker.ready()


@pytest.fixture
async def http(station: Station) -> AsyncIterator[httpx.AsyncClient]:
    """Has no key, and an address of its own: wrong keys are counted by address."""
    own = ".".join(str(random.randint(1, 254)) for _ in range(3))
    way = httpx.AsyncHTTPTransport(local_address=f"127.{own}")
    async with httpx.AsyncClient(base_url=station.url, timeout=30, transport=way) as client:
        yield client


@pytest.fixture
async def queue(station: Station) -> AsyncIterator[Queue]:
    """The station's default queue, with no dead letters."""
    redis = open_redis(station.redis.url)
    found = Queue(redis, QUEUE)
    await found.purge_dead()
    yield found
    await redis.aclose()


@pytest.fixture
def start_gateway() -> Iterator[Callable[..., GatewayProcess]]:
    """Start gateways with settings of their own; they are gone when the test ends."""
    started: list[GatewayProcess] = []

    def start(redis_url: str, **settings: Any) -> GatewayProcess:
        started.append(GatewayProcess(redis_url, **settings))
        return started[-1].listening()

    yield start
    for process in started:
        process.close()


@pytest.fixture(scope="session")
def the_browser() -> Iterator[Browser]:
    if not installed():
        missing("Chromium with its driver", "apt-get install chromium chromium-driver")
    browser = Browser()
    yield browser
    browser.close()


@pytest.fixture
def browser(the_browser: Browser) -> Browser:
    """As new, without cookies."""
    the_browser.forget()
    return the_browser


@pytest.fixture
async def page(browser: Browser, station: Station, queue: Queue) -> AsyncIterator[Browser]:
    """Signed in, on the overview. No test may leave a complaint in the console."""
    sign_in(browser, station.url)
    await seen(browser, "Workers")
    yield browser
    browser.scripts(on=True)
    assert browser.complaints() == []
