"""The version before this one: its code, kept in neighbour.tar.xz (`ops/freeze_neighbour.py`), run in processes."""

from __future__ import annotations

import lzma
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.worker_process import WorkerProcess

HERE = Path(__file__).parent
PACKED = HERE / "neighbour.tar.xz"
Version = Literal["older", "newer"]
OTHER: dict[Version, Version] = {"older": "newer", "newer": "older"}
QUEUE = "busload:default"
PARTS = ("producer", "shared", "worker")


@dataclass(frozen=True)
class Versions:
    """How to run either version. `newer` is the code of this checkout."""

    older_code: Path

    def environment(self, version: Version) -> dict[str, str]:
        """What a process needs beside a clean environment to run that version."""
        if version == "newer":
            return {}
        return {"PYTHONPATH": os.pathsep.join(str(self.older_code / part) for part in PARTS)}

    def command(self, version: Version, script: str, *words: str) -> dict[str, Any]:
        """How `subprocess` is to run a script of this folder."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("BUSLOAD_")}
        return {"args": [sys.executable, str(HERE / script), *words], "env": clean | self.environment(version)}

    def say(self, version: Version, script: str, *words: str, given: str = "") -> str:
        """What a script of this folder says, run to its end."""
        command = self.command(version, script, *words)
        done = subprocess.run(**command, input=given, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


class Producer:
    """A process of `producing.py`."""

    def __init__(self, versions: Versions, version: Version, redis_url: str, log: Path) -> None:
        self._log = log
        with log.open("wb") as file:
            command = versions.command(version, "producing.py", redis_url, QUEUE, version)
            self.process = subprocess.Popen(**command, stdout=file, stderr=file)

    def lines(self) -> list[str]:
        """What it said up to now."""
        return self._log.read_text(encoding="utf-8").splitlines()

    def stop(self) -> tuple[set[str], set[str]]:
        """Let it get its last answers. Returns the ids it sent, and those that it heard to have succeeded."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(timeout=60) == 0, self._log.read_text(encoding="utf-8")
        *lines, end = self.lines()
        assert end == "end"
        words = [line.split() for line in lines]
        heard = {name: status for said, name, *status in words if said == "heard"}
        assert {status for (status,) in heard.values()} == {"succeeded"}
        return {name for said, name, *_ in words if said == "sent"}, set(heard)


@pytest.fixture(scope="session")
def versions(tmp_path_factory: pytest.TempPathFactory) -> Versions:
    folder = tmp_path_factory.mktemp("older")
    with tarfile.open(fileobj=BytesIO(lzma.decompress(PACKED.read_bytes()))) as packed:
        packed.extractall(folder, filter="data")
    for script in folder.rglob("lua/*.lua"):  # else a script that has not changed is the same one for both
        script.write_text(script.read_text(encoding="utf-8") + "\n-- of the version before\n", encoding="utf-8")
    return Versions(folder)


@pytest.fixture
def start(versions: Versions) -> Iterator[Callable[..., WorkerProcess]]:
    """Start real worker processes of either version; they are gone when the test ends."""
    started: list[WorkerProcess] = []

    def start_one(version: Version, redis_url: str, **settings: Any) -> WorkerProcess:
        more = versions.environment(version)
        started.append(WorkerProcess(redis_url, more_environment=more, **settings))
        return started[-1]

    yield start_one
    for process in started:
        process.close()


@pytest.fixture
def produce(versions: Versions, tmp_path: Path) -> Iterator[Callable[[Version, str], Producer]]:
    """Start producers of either version; they are gone when the test ends."""
    started: list[Producer] = []

    def produce_as(version: Version, redis_url: str) -> Producer:
        started.append(Producer(versions, version, redis_url, tmp_path / f"producer-{len(started)}"))
        return started[-1]

    yield produce_as
    for producer in started:
        producer.process.kill()
        producer.process.wait()
