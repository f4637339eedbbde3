"""Producers that may not load scripts need a worker of their own version, or an operator."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest
from tests.conftest import missing
from tests.redis_servers import Servers
from tests.trust.guarded import Guarded, guarded_by
from tests.trust.test_acl_work import HIDDEN_FROM_PRODUCERS
from tests.upgrade.conftest import OTHER, Producer, Version
from tests.waiting import wait_until
from tests.worker_process import WorkerProcess
from typer.testing import CliRunner

from busload import AsyncClient, BusloadUnavailable
from busload.cli.app import app

Start = Callable[..., WorkerProcess]
Produce = Callable[[Version, str], Producer]


@pytest.fixture(scope="module")
def guarded(redis_servers: Servers) -> Iterator[Guarded]:
    version = redis_servers.first()
    if version is None:
        missing("redis-server", "apt-get install redis-server")
    with guarded_by(redis_servers, version) as server:
        yield server


async def test_a_newer_producer_under_older_workers_is_told_what_helps_and_it_does(
    guarded: Guarded, start: Start
) -> None:
    guarded.reset()
    await start("older", guarded.url_for("worker")).ready()
    async with AsyncClient(guarded.url_for("producer"), patience_s=0.2) as client:
        with pytest.raises(BusloadUnavailable, match="start a worker of the same version, or let an operator run its"):
            await client.submit(prompt="p")
        environment = {"BUSLOAD_REDIS_URL": guarded.url_for("operator")}
        ended = await asyncio.to_thread(CliRunner().invoke, app, ["migrate"], env=environment)
        assert ended.exit_code == 0, ended.output
        assert (await client.generate(prompt="p", max_tokens=2, timeout_s=30)).status == "succeeded"


@pytest.mark.parametrize("version", OTHER)
async def test_users_of_either_version_work_with_the_other_s_workers(
    guarded: Guarded, start: Start, produce: Produce, version: Version
) -> None:
    """Each is refused nothing, while a worker of either version is there."""
    guarded.reset()
    workers = [await start(one, guarded.url_for("worker")).ready() for one in OTHER]
    workers[list(OTHER).index(version)].close()
    producer = produce(version, guarded.url_for("producer"))

    async def some_heard() -> bool:
        return sum(line.startswith("heard") for line in producer.lines()) >= 20

    await wait_until(some_heard, timeout_s=60, what="20 are answered")
    sent, heard = producer.stop()
    assert sent == heard
    assert guarded.refusals() <= HIDDEN_FROM_PRODUCERS
