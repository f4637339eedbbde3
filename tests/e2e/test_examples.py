"""Every file of docs/examples runs, against a real worker process with the fake engine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.worker_process import WorkerProcess

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
FAKE = r"echo:\S+"


@pytest.fixture
async def worker_url(any_redis_url: str) -> AsyncIterator[str]:
    worker = await WorkerProcess(any_redis_url).ready()
    yield any_redis_url
    worker.close()


def run(url: str, name: str, *words: str) -> str:
    """What the example prints. It ends with 0 and complains of nothing."""
    ran = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ | {"BUSLOAD_REDIS_URL": url},
    )
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout
    return ran.stdout


def test_generate(worker_url: str) -> None:
    said = run(worker_url, "generate.py", "The capital of France is")
    assert re.match(FAKE, said)
    assert "one of 1 in its batch, which left because: timeout" in said
    assert re.search(r"waited \d+ ms, ran \d+ ms", said)


def test_asyncio_many(worker_url: str) -> None:
    assert re.match(r"100 of 100 answered in \d+ batches", run(worker_url, "asyncio_many.py", "100"))


def test_raw_producer(worker_url: str) -> None:
    assert re.match(rf"succeeded {FAKE}", run(worker_url, "raw_producer.py"))


def test_deadline_and_priority(worker_url: str) -> None:
    lines = run(worker_url, "deadline_and_priority.py").splitlines()
    assert sorted(lines[:3]) == ["chat succeeded", "nightly succeeded", "urgent succeeded"]
    assert re.match(r"late (expired|refused) - ", lines[3])


def test_wait_elsewhere(worker_url: str) -> None:
    request_id = run(worker_url, "wait_elsewhere.py", "submit", "Hello").strip()
    said = run(worker_url, "wait_elsewhere.py", "wait", request_id)
    assert said.startswith(f"succeeded echo:{request_id}")
    assert said.endswith("{'from': 'the web shop'}\n")


def test_fan_out(worker_url: str) -> None:
    lines = run(worker_url, "fan_out.py").splitlines()
    assert sorted(line.partition(":")[0] for line in lines[:4]) == ["delivery", "price", "quality", "service"]
    assert re.match(rf"in short: {FAKE}", lines[4])


def test_each_example_is_run_here_and_is_short() -> None:
    files = {path.name: path.read_text(encoding="utf-8") for path in EXAMPLES.glob("*.py")}
    here = Path(__file__).read_text(encoding="utf-8")
    assert [name for name in files if f'"{name}"' not in here] == []
    assert {name: text.count("\n") for name, text in files.items() if text.count("\n") > 40} == {}
    assert [name for name, text in files.items() if "BUSLOAD_REDIS_URL" not in text] == []
