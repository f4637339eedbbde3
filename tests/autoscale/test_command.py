"""`busload autoscale` as a process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.autoscale.stub_compose import StubBin
from tests.queue.steps import submit
from tests.waiting import wait_until

from busload_shared.queue import Queue


@asynccontextmanager
async def autoscale(redis_url: str, *words: str) -> AsyncIterator[Process]:
    """The command while the block lasts; stdout and stderr are pipes."""
    environment = os.environ | {"BUSLOAD_REDIS_URL": redis_url, "BUSLOAD_QUEUE": "busload:default"}
    command = [sys.executable, "-m", "busload", "autoscale", "--interval-s", "0.1", *words]
    process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=PIPE, stderr=PIPE)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
async def test_it_prints_json_lines_and_ends_well_when_told(queue: Queue, any_redis_url: str, number: int) -> None:
    await submit(queue, "1")
    async with autoscale(any_redis_url, "--json", "--min-workers", "0") as process:
        assert process.stdout is not None
        async with asyncio.timeout(60):
            line = json.loads(await process.stdout.readline())
            process.send_signal(number)
            _, errors = await process.communicate()
    assert (line["was"], line["workers"], line["why"], line["waiting"]) == (0, 1, "first", 1)
    assert process.returncode == 0
    assert b"the workers stay as they are" in errors


async def test_compose_is_called_and_people_are_told(queue: Queue, any_redis_url: str, stub_bin: StubBin) -> None:
    stub_bin.add("docker")
    await submit(queue, "1")

    async def scaled() -> bool:
        return any("--scale worker=1" in call for call in stub_bin.calls)

    async with autoscale(any_redis_url, "--driver", "compose", "--min-workers", "0") as process:
        await wait_until(scaled, timeout_s=60, what="compose is called")
        process.terminate()
        out, _ = await process.communicate()
    assert out.startswith(b"0 -> 1 worker: there is work and no worker")


async def test_bounds_that_are_none_are_refused(any_redis_url: str) -> None:
    async with autoscale(any_redis_url, "--min-workers", "5", "--max-workers", "2") as process:
        async with asyncio.timeout(60):
            _, errors = await process.communicate()
    assert process.returncode == 2
    assert b"--min-workers must be 0 or more, and no more than --max-workers" in errors
