"""The roles of docs/security.md on a queue of partitions: each does its work, and nothing else."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from ops.redis.make_users import acl_file, template_for, user_of
from tests.conftest import missing
from tests.queue.load import worker_on
from tests.redis_servers import WANTED, Servers
from tests.trust.guarded import QUEUE, ROLES, Guarded, password
from tests.trust.test_acl_work import HIDDEN_FROM_PRODUCERS

from busload import AsyncClient, BusloadUnavailable
from busload_shared.opening import open_queue

from .conftest import COUNT
from .homes import one_in_each

START = Path(__file__).parents[2] / "ops" / "redis" / "start.sh"


@pytest.fixture(params=list(WANTED))
def guarded(request: pytest.FixtureRequest, redis_servers: Servers) -> Iterator[Guarded]:
    version = request.param
    if version not in redis_servers:
        missing(f"redis-server {version}", WANTED[version])
    server = Guarded(redis_servers.binaries[version], version)
    environment = {f"{role.upper()}_PASSWORD": password(role) for role in ROLES}
    users = [user_of(role, QUEUE, environment) for role in ROLES]
    text = acl_file(users, template_for("6" if server.is_old else "7"), partitions=True)
    Path(server._more["aclfile"]).write_text(text, encoding="utf-8")
    server.start()
    yield server
    server.remove()


async def test_each_role_does_its_work_in_every_partition(guarded: Guarded) -> None:
    async with (
        worker_on(guarded.url_for("worker"), QUEUE, partitions=COUNT),
        AsyncClient(guarded.url_for("producer"), queue=QUEUE, partitions=COUNT, patience_s=20) as client,
    ):
        names = one_in_each(COUNT)
        results = await asyncio.gather(*(client.generate(id=n, prompt="p", max_tokens=2, timeout_s=30) for n in names))
        assert {result.status for result in results} == {"succeeded"}
        for name in one_in_each(COUNT, prefix="c"):
            assert await client.cancel(name) == "unknown"
            assert (await client.generate(id=name, prompt="p", timeout_s=30)).status == "cancelled"
        assert (await client.queue_info()).waiting == 0
        assert guarded.refusals() <= HIDDEN_FROM_PRODUCERS | {
            line.replace(QUEUE, f"{QUEUE}/{number}") for line in HIDDEN_FROM_PRODUCERS for number in range(1, COUNT)
        }
        with guarded.as_user("analyst") as analyst:
            queue = open_queue(guarded.url, QUEUE, partitions=COUNT)
            keys = [part.keys.result(name) for part, name in zip(queue.parts, names, strict=True)]
            assert all(analyst.get(key) for key in keys)
            await queue.close()


async def test_a_queue_that_is_called_otherwise_is_another(guarded: Guarded) -> None:
    other = open_queue(guarded.url_for("producer"), f"{QUEUE}2", partitions=COUNT, patience_s=0)
    for part in other.parts:
        with pytest.raises(BusloadUnavailable, match="ACL"):
            await part.peek(1)
    await other.close()


def test_composes_redis_writes_the_same_rules() -> None:
    environment = {f"REDIS_PASSWORD_{role.upper()}": "x" * 16 for role in (*ROLES, "gateway", "celery")}
    command = ["sh", str(START), "--users-only"]
    environment |= {"PATH": os.environ["PATH"], "BUSLOAD_PARTITIONS": "8"}
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    passwords = {"WORKER_PASSWORD": "x" * 16, "ANALYST_PASSWORD": "x" * 16}
    users = [user_of(role, QUEUE, passwords) for role in ("worker", "analyst")]
    made = acl_file(users, template_for("7"), partitions=True).splitlines()
    assert set(made[1:]) <= set(said.splitlines())
