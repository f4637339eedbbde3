"""Runs every example of docs/analysts.md and docs/bulk.md, and compares the columns with those of the code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.queue.test_protocol_examples import ROOT, examples, matches, redis_cli
from tests.redis_servers import Server
from tests.worker_process import WorkerProcess

from busload.analysis.columns import COLUMNS

ANALYSTS, BULK = ROOT / "docs" / "analysts.md", ROOT / "docs" / "bulk.md"
NAMED = "redis://127.0.0.1:6379/0"


@pytest.fixture
def shell(any_server: Server, tmp_path: Path) -> dict[str, str]:
    """An environment in which `redis-cli` and `busload` reach our server; both print as they do in a script."""
    folder = tmp_path / "bin"
    folder.mkdir()
    show = '[ -p /dev/stdout ] || set -- --no-raw "$@"\n'
    for name, line in (
        ("redis-cli", f'{show}exec {redis_cli()} -p {any_server.port} "$@"\n'),
        ("busload", f'exec {sys.executable} -m busload "$@"\n'),
    ):
        (folder / name).write_text(f"#!/bin/sh\n{line}", encoding="utf-8")
        (folder / name).chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "BUSLOAD_REDIS_URL": any_server.url}


def python_examples(page: Path) -> list[str]:
    return re.findall(
        r"^<!-- run -->\n```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )


def ran(words: list[str], shell: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    out = folder / "out"
    with out.open("wb") as stream:
        done = subprocess.run(words, env=shell, cwd=folder, stdout=stream, stderr=stream, timeout=60, check=False)
    return subprocess.CompletedProcess(words, done.returncode, out.read_text(encoding="utf-8"))


@pytest.mark.usefixtures("worker")
def test_every_example_of_the_analysts_page_is_true(shell: dict[str, str], any_redis_url: str, tmp_path: Path) -> None:
    found = examples(ANALYSTS)
    assert len(found) >= 10
    for example in found:
        output = ran(["bash", "-c", example.command], shell, tmp_path).stdout
        where = f"{ANALYSTS.name}:{example.line}\n$ {example.command}\n"
        assert matches(example.expected, output), f"{where}promised:\n{example.expected}\ncame:\n{output}"
    codes = python_examples(ANALYSTS)
    assert len(codes) == 2
    for code in codes:
        done = ran([sys.executable, "-c", code.replace(NAMED, any_redis_url)], shell, tmp_path)
        assert done.returncode == 0, done.stdout
        assert "july-3" in done.stdout


def test_the_bulk_pages_python_is_true(worker: WorkerProcess, any_redis_url: str, tmp_path: Path) -> None:
    (code,) = python_examples(BULK)
    done = ran([sys.executable, "-c", code.replace(NAMED, any_redis_url)], dict(os.environ), tmp_path)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("echo:") == 100


def test_the_columns_are_those_of_the_page() -> None:
    stated = re.findall(r"^\| `(\w+)` \| (.+) \|$", ANALYSTS.read_text(encoding="utf-8"), re.MULTILINE)
    assert stated[: len(COLUMNS)] == [(column.name, column.meaning) for column in COLUMNS]
