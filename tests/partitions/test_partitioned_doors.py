"""The command line, Celery's door, the gateway and the exporter on a queue of partitions."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from tests.celery_door.conftest import Shop, a_server, get
from tests.queue.load import worker_on
from tests.redis_servers import Servers

from busload import SettingsInvalid
from busload.celery_door.settings import DoorSettings
from busload.gateway.desks import partitions_of
from busload.gateway.settings import GatewaySettings
from busload.gateway.settings import read_settings as gateway_settings
from busload.metrics.lookout import Lookout
from busload.metrics.settings import read_settings as exporter_settings
from busload_shared.opening import open_queue

from .conftest import COUNT
from .homes import one_in_each

NAME = "busload:doors"


async def busload(url: str, *words: str) -> tuple[int, str]:
    """Run the command; its exit code and what it answers."""
    environment = os.environ | {"BUSLOAD_REDIS_URL": url, "BUSLOAD_QUEUE": NAME, "BUSLOAD_PARTITIONS": str(COUNT)}
    command = [sys.executable, "-m", "busload", *words]
    done = await asyncio.to_thread(
        subprocess.run, command, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout


async def test_the_command_line_finds_each_request_in_its_partition(any_redis_url: str) -> None:
    async with worker_on(any_redis_url, NAME, partitions=COUNT):
        names = one_in_each(COUNT)
        for name in names:
            code, said = await busload(any_redis_url, "submit", "hello", "--id", name, "--max-tokens", "2", "--wait")
            assert (code, f":{name}:" in said) == (0, True)
        assert await busload(any_redis_url, "status", *names) == (
            0, "".join(f"{name} answered succeeded\n" for name in names)
        )  # fmt: skip
        code, said = await busload(any_redis_url, "results", "--pattern", "*", "--json")
        assert sorted(json.loads(line)["id"] for line in said.splitlines()) == sorted(names)
        code, said = await busload(any_redis_url, "queue", "--json")
        assert json.loads(said)["counters"] == {"succeeded": COUNT}
        code, said = await busload(any_redis_url, "--partitions", "1", "queue", "--queue", f"{NAME}/3", "--json")
        assert json.loads(said)["counters"] == {"succeeded": 1}
        assert (await busload(any_redis_url, "drain", "--timeout-s", "10"))[0] == 0


class PartedShop(Shop):
    """Its application and its engines use partitions."""

    def _application(self) -> Any:
        self.environment["BUSLOAD_PARTITIONS"] = str(COUNT)
        return super()._application()


@pytest.fixture
def shop(redis_servers: Servers) -> Iterator[PartedShop]:
    server = a_server(redis_servers)
    shop = PartedShop(server)
    yield shop
    shop.close()
    server.remove()


async def test_celery_tasks_are_woken_by_results_of_every_partition(shop: PartedShop) -> None:
    await asyncio.gather(shop.celery(), shop.engine(partitions=COUNT))
    assert shop.tasks.generate.door.settings.partitions == COUNT
    tasks = [shop.tasks.generate.delay(f"question {number}", max_tokens=2) for number in range(16)]
    texts = await asyncio.gather(*(get(task) for task in tasks))
    assert len(set(texts)) == 16
    queue = open_queue(shop.environment["BUSLOAD_REDIS_URL"], "busload:default", partitions=COUNT)
    spread = [(await part.info()).counters.get("succeeded", 0) for part in queue.parts]
    assert (sum(spread), min(spread) > 0) == (16, True)
    await queue.close()
    await shop.until_nothing_is_parked()


def test_the_gateways_number_is_for_its_own_queue_only() -> None:
    settings = gateway_settings({"BUSLOAD_QUEUE": "q", "BUSLOAD_PARTITIONS": "8"})
    assert (partitions_of("q", settings), partitions_of("a-keys-own", settings)) == (8, 1)
    assert gateway_settings({"BUSLOAD_PARTITIONS": "8", "BUSLOAD_GATEWAY_PARTITIONS": "2"}).partitions == 2
    assert GatewaySettings().partitions == 1


def test_a_number_that_is_none_is_refused_by_every_door() -> None:
    with pytest.raises(SettingsInvalid, match="PARTITIONS"):
        gateway_settings({"BUSLOAD_GATEWAY_PARTITIONS": "many"})
    with pytest.raises(SettingsInvalid, match="partitions"):
        exporter_settings([], {"BUSLOAD_PARTITIONS": "0"})
    with pytest.raises(SettingsInvalid, match="partitions=65"):
        DoorSettings(partitions=65)


async def test_the_exporter_shows_a_partitioned_queue_as_one(any_redis_url: str) -> None:
    given = exporter_settings([], {"BUSLOAD_REDIS_URL": any_redis_url, "BUSLOAD_PARTITIONS": str(COUNT)})
    async with worker_on(any_redis_url, "busload:default", partitions=COUNT):
        queue = open_queue(any_redis_url, "busload:default", partitions=COUNT)
        for part in queue.parts:
            await queue.redis.lpush(part.keys.dead, "{}")
        lookout = Lookout(given.redis_url, given.queues, kept_s=0, partitions=given.partitions)
        sight = await asyncio.to_thread(lookout.sight)
        info = sight.queues["busload:default"]
        assert info is not None
        assert (len(info.workers), info.dead) == (1, COUNT)
        await lookout.close()
        await queue.close()
