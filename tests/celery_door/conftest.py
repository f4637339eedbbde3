"""A Redis for everything, real Celery worker processes, and the same application in the tests' own process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import redis
from tests.conftest import missing
from tests.redis_servers import WANTED, Server, Servers
from tests.waiting import wait_until
from tests.worker_process import WorkerProcess

ROOT = Path(__file__).parents[2]
QUEUE = "busload:default"


class CeleryWorker:
    """A prefork worker of two processes, with its log. It is a process group, so that all of it can be killed."""

    def __init__(self, environment: dict[str, str], *words: str, application: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="busload-celery-")
        self.log_file = Path(self._folder.name) / "log"
        command = [sys.executable, "-m", "celery", "-A", application, "worker", "--concurrency", "2"]
        command += ["--loglevel", "INFO", "--without-gossip", "--without-mingle", *words]
        with self.log_file.open("wb") as log:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True
            )

    def log(self) -> str:
        return self.log_file.read_text(encoding="utf-8", errors="replace")

    async def ready(self) -> CeleryWorker:
        async def there() -> bool:
            assert self.process.poll() is None, self.log()
            return " ready." in self.log()

        await wait_until(there, timeout_s=60, what="the Celery worker is ready")
        return self

    def kill(self) -> None:
        """kill -9, its children too."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def close(self) -> None:
        self.kill()
        self._folder.cleanup()


class Shop:
    """One Redis, the application on it, and its worker processes."""

    def __init__(self, server: Server) -> None:
        self.server = server
        base = server.url.rsplit("/", 1)[0]
        self.environment = {
            "BUSLOAD_REDIS_URL": f"{base}/0",
            "BUSLOAD_QUEUE": QUEUE,
            "TEST_BROKER": f"{base}/1",
            "TEST_BACKEND": f"{base}/2",
        }
        self._started: list[CeleryWorker | WorkerProcess] = []
        self.store = redis.Redis.from_url(f"{base}/2", socket_timeout=20)
        self.queue = redis.Redis.from_url(f"{base}/0", socket_timeout=20)
        self.broker = redis.Redis.from_url(f"{base}/1", socket_timeout=20)
        self.tasks = self._application()

    def _application(self) -> Any:
        old = {name: os.environ.get(name) for name in self.environment}
        os.environ.update(self.environment)
        sys.modules.pop("tests.celery_door.application", None)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of Celery's own imports
                tasks = import_module("tests.celery_door.application")
                _ = tasks.generate.door.settings
                return tasks
        finally:
            for name, value in old.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})

    async def celery(
        self, *words: str, application: str = "tests.celery_door.application", **more: str
    ) -> CeleryWorker:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("BUSLOAD_", "CELERY_", "TEST_"))}
        environment = inherited | self.environment | more
        self._started.append(worker := CeleryWorker(environment, *words, application=application))
        return await worker.ready()

    async def engine(self, **settings: Any) -> WorkerProcess:
        self._started.append(worker := WorkerProcess(self.environment["BUSLOAD_REDIS_URL"], **settings))
        return await worker.ready()

    def effects(self, name: str) -> list[str]:
        return [value.decode() for value in self.store.hvals(name)]

    async def until_waiting(self, number: int) -> None:
        """So many requests wait in Busload, and Celery holds no message."""

        async def parked() -> bool:
            held = self.broker.llen("celery") + self.broker.hlen("unacked")
            return self.queue.llen(QUEUE) == number and held == 0

        await wait_until(parked, timeout_s=60, what=f"{number} tasks are parked")

    def cut_busload(self) -> None:
        """Close every connection to Busload's database, and leave Celery's alone."""
        for client in self.queue.client_list():
            if client["db"] == "0" and int(client["id"]) != self.queue.client_id():
                self.queue.client_kill_filter(_id=client["id"])

    async def until_overdue(self) -> None:
        """The deadline of a waiting request has passed."""

        async def past() -> bool:
            return bool(self.queue.zcount(f"{{{QUEUE}}}:deadlines", 0, self.queue.time()[0] * 1000))

        await wait_until(past, what="a request is overdue")

    async def until_nothing_is_parked(self) -> None:
        async def forgotten() -> bool:
            return not self.queue.keys("*parked*") and not self.queue.keys("*landing*")

        await wait_until(forgotten, timeout_s=30, what="nothing is parked any more")

    def close(self) -> None:
        for worker in self._started:
            print(worker.log()[-6000:])  # shown when the test failed
            worker.close()
        self.tasks.generate.door.close()
        consumer = self.tasks.app.backend.result_consumer
        consumer.stop()
        consumer.subscribed_to.clear()  # results that are collected later must not ask a Redis that is gone
        consumer._pubsub = None
        self.tasks.app.close()
        for client in (self.store, self.queue, self.broker):
            client.close()


async def get(result: Any, timeout_s: float = 60) -> Any:
    """A task's result, waited for in this thread: Celery's result backends belong to one each."""

    async def ready() -> bool:
        return bool(result.ready())

    await wait_until(ready, timeout_s=timeout_s, what=f"{result} is ready")
    return result.get(timeout=10)


def a_server(servers: Servers) -> Server:
    version = servers.first()
    if version is None:
        missing("redis-server", " or ".join(WANTED.values()))
    server = Server(servers.binaries[version], version)
    server.start()
    return server


@pytest.fixture
def shop(redis_servers: Servers) -> Iterator[Shop]:
    """A Redis of its own: workers that a test kills must not be another's."""
    server = a_server(redis_servers)
    shop = Shop(server)
    yield shop
    shop.close()
    server.remove()
