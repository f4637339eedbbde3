"""The three ways of docs/quickstart.md lead where they say, line by line, on a Redis of the test's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import missing
from tests.redis_servers import Server
from tests.worker_process import WorkerProcess

PAGE = Path(__file__).parents[2] / "docs" / "quickstart.md"

STAND_INS = """
pip() { :; }
redis-server() { :; }
redis-cli() { command redis-cli -u "$BUSLOAD_REDIS_URL" "$@"; }
set -e
trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT
"""
"""What is there already is not installed or started; and redis-cli asks the test's Redis."""


def example(name: str) -> str:
    """The block of the page that is marked so."""
    found = re.search(rf"<!-- example: {re.escape(name)} -->\n```\w+\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert found is not None, f"the page has no example {name}"
    return found.group(1)


class User:
    """Somebody at a shell, who copies from the page."""

    def __init__(self, url: str) -> None:
        self._url = url
        binaries = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        named = {"PATH": binaries, "BUSLOAD_REDIS_URL": url, "COLUMNS": "120"}
        self._environment = {k: v for k, v in os.environ.items() if not k.startswith("BUSLOAD_")} | named

    def shell(self, name: str) -> str:
        return self._run(["bash", "-c", STAND_INS + example(name)])

    def python(self, name: str) -> str:
        return self._run([sys.executable, "-c", example(name).replace("redis://127.0.0.1:6379/0", self._url)])

    def _run(self, command: list[str]) -> str:
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=120, check=False, env=self._environment, cwd=PAGE.parent
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout


@pytest.fixture
def user(any_server: Server) -> User:
    return User(any_server.url)


@pytest.fixture
def worker(any_server: Server) -> Iterator[None]:
    worker = WorkerProcess(any_server.url)
    yield
    worker.close()


def test_a_program_asks(user: User, worker: None) -> None:
    enqueued, answered = user.python("ask.py").splitlines()
    request_id, state = enqueued.split()
    assert state == "queued"
    assert answered.startswith(f"succeeded echo:{request_id}")


def test_an_operator_runs_two_workers_and_stops_one(user: User) -> None:
    said = user.shell("operate.sh")
    assert "echo:" in said
    assert "busload:default" in said


def test_an_analyst_reads_results(user: User, worker: None) -> None:
    if shutil.which("redis-cli") is None:
        missing("redis-cli", "apt-get install redis-tools")
    lines = user.shell("read.sh").splitlines()
    assert lines[0] == "2"
    assert re.findall(r'"id":"(\w+)","status":"succeeded"', "\n".join(lines[1:])) == ["a1", "a1", "a2"]
    first, second, third = user.python("read.py").splitlines()
    assert first.startswith("a1 answered echo:a1")
    assert second.startswith("a2 answered echo:a2")
    assert third.strip() == "never-asked unknown"
