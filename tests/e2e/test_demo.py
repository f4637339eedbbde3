"""`busload demo` as a user runs it, with an engine that needs no model; and what it leaves behind: nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from busload.demo import children, redis_server
from busload.demo.redis_server import EmbeddedRedis, find_redis_server
from busload_shared.errors import BusloadUnavailable

DEMO = [sys.executable, "-m", "busload", "demo", "--engine", "fake", "--alone", "2"]


@pytest.fixture
def temporary(tmp_path: Path) -> dict[str, str]:
    """An environment whose temporary folder is our own, to see what stays in it."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    return os.environ | {"TMPDIR": str(folder), "COLUMNS": "100"}


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    file = tmp_path / "prompts.jsonl"
    file.write_text("".join(f'{{"prompt": "question {n}", "max_tokens": {4 + 3 * n}}}\n' for n in range(9)))
    return file


def children_of(folder: str) -> list[int]:
    """Processes that know this temporary folder, by their environment or as the folder they are in."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != os.getpid():
            try:
                known = (process / "environ").read_text(errors="replace") + os.readlink(process / "cwd")
            except OSError:
                continue
            if folder in known:
                found.append(int(process.name))
    return found


def wait_until_gone(folder: str, *, within_s: float = 10.0) -> None:
    give_up = time.monotonic() + within_s
    while left := children_of(folder):
        assert time.monotonic() < give_up, f"still there: {left}"
        time.sleep(0.05)


def test_every_request_comes_back_and_nothing_stays(prompts: Path, temporary: dict[str, str], tmp_path: Path) -> None:
    run = subprocess.run(
        [*DEMO, "--prompts", str(prompts), "--keep-log"],
        env=temporary, cwd=tmp_path, capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    assert "All 9 requests came back" in run.stdout
    assert "raw LPUSH" in run.stdout
    assert "times as long" in run.stdout
    assert "batch done" in (tmp_path / "busload-demo.log").read_text()
    assert list(Path(temporary["TMPDIR"]).iterdir()) == []
    wait_until_gone(temporary["TMPDIR"])


def test_a_request_that_fails_fails_the_demo(tmp_path: Path, temporary: dict[str, str]) -> None:
    prompts = tmp_path / "prompts"
    prompts.write_text('{"prompt": "good", "max_tokens": 4}\n{"prompt": "late", "ttl_s": 1e-6}\n')
    run = subprocess.run(
        [*DEMO, "--alone", "0", "--prompts", str(prompts)],
        env=temporary, capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip
    assert run.returncode == 1
    assert "q-02 expired" in run.stdout


def test_a_worker_that_cannot_start_is_told_with_its_log(temporary: dict[str, str]) -> None:
    run = subprocess.run(
        [*DEMO, "--max-wait-ms", "1e9"], env=temporary, capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 1
    assert "the worker ended with code 2" in run.stdout
    assert "BUSLOAD_MAX_WAIT_MS" in run.stdout
    assert "Traceback" not in run.stderr


@pytest.fixture
def riding(temporary: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A demo whose worker is ready and whose requests are on their way."""
    process = subprocess.Popen(DEMO, env=temporary, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if "has left" in line:
            break
    else:
        pytest.fail("".join(said))
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_it_started(
    riding: subprocess.Popen[str], temporary: dict[str, str], signum: signal.Signals
) -> None:
    riding.send_signal(signum)
    assert riding.stdout is not None
    said = riding.stdout.read()
    assert riding.wait(20) == 130
    assert "Stopped" in said
    assert "Traceback" not in said
    wait_until_gone(temporary["TMPDIR"])
    assert list(Path(temporary["TMPDIR"]).iterdir()) == []


def test_kill_9_leaves_no_process(riding: subprocess.Popen[str], temporary: dict[str, str]) -> None:
    assert len(children_of(temporary["TMPDIR"])) >= 3, "the demo, Redis and the worker"
    riding.kill()
    riding.wait()
    wait_until_gone(temporary["TMPDIR"])


@pytest.fixture(params=["PATH", *redis_server._WHEELS])
def only(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """One source of a redis-server and no other."""
    source: str = request.param
    if source == "PATH":
        monkeypatch.setattr(redis_server, "_WHEELS", ())
    else:
        monkeypatch.setenv("PATH", "")
        monkeypatch.setattr(redis_server, "_WHEELS", (source,))
    try:
        find_redis_server()
    except BusloadUnavailable as error:
        if os.environ.get("CI"):
            pytest.fail(f"CI must have every redis-server: {error}")
        pytest.skip(str(error))
    return source


def test_the_embedded_redis_is_private_in_memory_and_gone_at_the_end(only: str, tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path) as server:
        assert server.url.startswith("redis://127.0.0.1:")
        assert (str(tmp_path) in str(server.binary)) is False
        with redis.Redis.from_url(server.url) as client:
            config = client.config_get("*")
            client.set("a", "1")
        assert (config["save"], config["appendonly"], config["maxmemory-policy"]) == ("", "no", "noeviction")
        assert config["bind"] == "127.0.0.1"
    with redis.Redis.from_url(server.url) as client, pytest.raises(redis.ConnectionError):
        client.ping()
    assert [file.name for file in tmp_path.iterdir()] == ["redis.log"]


def test_without_a_redis_server_the_command_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(redis_server, "_WHEELS", ())
    with pytest.raises(BusloadUnavailable, match=r"busload\[embedded\]"):
        EmbeddedRedis(tmp_path)


def test_a_port_that_is_taken_meanwhile_is_not_mistaken_for_ours(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with EmbeddedRedis(tmp_path) as other:
        taken, free = int(other.url.split(":")[-1].split("/")[0]), redis_server._free_port()
        ports = iter([taken, free])
        monkeypatch.setattr(redis_server, "_free_port", lambda: next(ports))
        with EmbeddedRedis(tmp_path) as server:
            assert server.url == f"redis://127.0.0.1:{free}/0"


def test_a_redis_server_that_does_not_start_shows_its_log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "redis-server"
    broken.write_text("#!/bin/sh\necho no such thing >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(redis_server, "find_redis_server", lambda: broken)
    with pytest.raises(BusloadUnavailable, match="no such thing"), EmbeddedRedis(tmp_path):
        pass


def test_a_child_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    script = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
    log = tmp_path / "log"
    child = children.start_child([sys.executable, "-c", script], log=log)
    give_up = time.monotonic() + 10
    while "up" not in children.tail(log):
        assert time.monotonic() < give_up
        time.sleep(0.01)
    children.stop_child(child, grace_s=0.1)
    assert child.returncode == -signal.SIGKILL


@pytest.mark.engine
def test_the_demo_runs_on_the_real_model(tmp_path: Path, temporary: dict[str, str]) -> None:
    prompts = tmp_path / "prompts"
    prompts.write_text('Name the capital of France.\n{"prompt": "One, two,", "max_tokens": 4}\n')
    run = subprocess.run(
        [sys.executable, "-m", "busload", "demo", "--alone", "1", "--prompts", str(prompts)],
        env=temporary, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    assert "The capital of France is Paris." in run.stdout
    assert "All 2 requests came back" in run.stdout
    wait_until_gone(temporary["TMPDIR"])
