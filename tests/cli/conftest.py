"""The command line, called in this process on a real Redis, with a real worker process where one is needed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import pytest
from tests.queue.steps import board, bury, submit
from tests.waiting import wait_until
from tests.worker_process import WorkerProcess
from typer.testing import CliRunner

from busload.cli.app import app
from busload.operating.reaching import queue_on
from busload_shared.queue import Queue

QUEUE = "busload:default"
T = TypeVar("T")


class Ended:
    """How a command ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> list[Any]:
        """The lines of stdout, each of which must be JSON."""
        return [json.loads(line) for line in self.out.splitlines()]


class CommandLine:
    """`busload` on one Redis."""

    def __init__(self, redis_url: str) -> None:
        self.redis_url = redis_url

    def __call__(self, *words: str, stdin: str | None = None, **environment: str) -> Ended:
        """Run it to its end. What it did not mean to raise is raised here."""
        env = {"BUSLOAD_REDIS_URL": self.redis_url, "COLUMNS": "80"} | environment
        ended = CliRunner().invoke(app, words, input=stdin, env=env, prog_name="busload")
        if ended.exception is not None and not isinstance(ended.exception, SystemExit):
            raise ended.exception
        return Ended(ended.exit_code, ended.stdout, ended.stderr)

    def on_queue(self, work: Callable[[Queue], Coroutine[Any, Any, T]]) -> T:
        """Do something with the queue, past the command line."""

        async def all_of_it() -> T:
            async with queue_on(self.redis_url, QUEUE, patience_s=1) as queue:
                return await work(queue)

        return asyncio.run(all_of_it())

    def bury(self, *ids: str) -> None:
        """Give each of these a dead letter, one after another."""

        async def work(queue: Queue) -> None:
            for name in ids:
                await submit(queue, name)
                await bury(queue, await board(queue, f"batch-{name}"))

        self.on_queue(work)

    def enqueue(self, *ids: str) -> None:
        """Let these wait."""
        self.on_queue(lambda queue: submit(queue, *ids))


async def _ready_worker(queue: Queue) -> None:
    async def listed() -> bool:
        return any(worker.state == "ready" for worker in (await queue.info()).workers)

    await wait_until(listed, timeout_s=60, what="the worker is listed as ready")


@pytest.fixture
def busload(any_redis_url: str) -> CommandLine:
    return CommandLine(any_redis_url)


@pytest.fixture
def start_worker(busload: CommandLine) -> Iterator[Callable[..., WorkerProcess]]:
    """Start a real worker process and wait until the queue lists it as ready; it is gone when the test ends."""
    started: list[WorkerProcess] = []

    def start(**settings: Any) -> WorkerProcess:
        process = WorkerProcess(busload.redis_url, **settings)
        started.append(process)
        busload.on_queue(_ready_worker)
        return process

    yield start
    for process in started:
        process.close()
