"""A real worker process, and `busload` commands as real processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.worker_process import WorkerProcess

QUEUE = "busload:default"
Command = Callable[..., "subprocess.CompletedProcess[str]"]


def environment(redis_url: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BUSLOAD_")}
    return kept | {"BUSLOAD_REDIS_URL": redis_url}


@pytest.fixture
async def worker(any_redis_url: str) -> AsyncIterator[WorkerProcess]:
    """With the fake engine, 15 ms a batch of 8."""
    process = WorkerProcess(any_redis_url, max_batch_size=8, fake_overhead_ms=15, max_wait_ms=10)
    yield await process.ready()
    process.close()


@pytest.fixture
def busload(any_redis_url: str, tmp_path: Path) -> Command:
    """Run a command to its end."""

    def run(*words: str, stdin: str | None = None, redis_url: str = any_redis_url) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "busload", *words],
            cwd=tmp_path, env=environment(redis_url), input=stdin, text=True, capture_output=True, timeout=120,
            check=False,
        )  # fmt: skip

    return run


@pytest.fixture
def start_busload(any_redis_url: str, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a command; it is gone when the test ends."""
    started: list[subprocess.Popen[str]] = []

    def start(*words: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "busload", *words],
            cwd=tmp_path, env=environment(any_redis_url), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def records(path: Path) -> list[dict[str, Any]]:
    """The JSON lines of a file, all of them whole."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    assert text == "" or text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def write_lines(path: Path, *lines: dict[str, Any] | str) -> None:
    """JSON lines; a text is written as it is."""
    path.write_text("".join((x if isinstance(x, str) else json.dumps(x)) + "\n" for x in lines), encoding="utf-8")
