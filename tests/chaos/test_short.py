"""A short run of the chaos suite: every kind of harm, and nothing lost, doubled or wrongly convicted.

How fast all recover is not judged here, where other tests share the machine; `make chaos` judges it.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.chaos.launching import ROOT
from tests.conftest import missing
from tests.redis_servers import WANTED, binaries


def chaos(*words: str, timeout_s: float = 240) -> str:
    """Run it in a process of its own; it says how to repeat what it found."""
    command = [sys.executable, "-m", "tests.chaos", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
    return done.stdout


def installed(version: str) -> str:
    if version not in binaries():
        missing(f"redis-server {version}", WANTED[version])
    return version


def any_installed() -> str:
    found = binaries()
    return next((version for version in WANTED if version in found), "") or installed("7.0")


def test_a_storm_of_faults_loses_doubles_and_convicts_nothing() -> None:
    said = chaos(
        "--seconds", "15", "--seed", "7", "--workers", "3", "--rate", "120", "--no-bound", "--redis", any_installed()
    )  # fmt: skip
    assert " 0 lost, 0 answered twice, 0 wrong, 0 innocents convicted" in said


def test_a_storm_of_faults_on_a_queue_in_partitions_loses_doubles_and_convicts_nothing() -> None:
    said = chaos(
        "--seconds", "15", "--seed", "7", "--workers", "3", "--rate", "100", "--no-bound", "--redis", any_installed(),
        "--partitions", "4", "--old-rev", "-",
    )  # fmt: skip
    assert " 0 lost, 0 answered twice, 0 wrong, 0 innocents convicted" in said


@pytest.mark.parametrize("version", ["6.2", "8.2"])
def test_restarts_and_a_full_redis_lose_nothing_on_other_versions(version: str) -> None:
    only = "Redis kill -9 and restart,Redis SHUTDOWN and restart,Redis at maxmemory,SCRIPT FLUSH,CLIENT KILL all"
    chaos(
        "--seconds", "5", "--seed", "7", "--redis", installed(version), "--workers", "2", "--rate", "100",
        "--no-bound", "--only", only,
    )  # fmt: skip


def test_redis_restarts_and_all_consume_again_within_seconds() -> None:
    said = chaos(
        "restarts", "--count", "2", "--seed", "7", "--workers", "2", "--rate", "60", "--no-bound",
        "--redis", any_installed(),
    )  # fmt: skip
    assert "later than 5 s: 0" in said
