"""Passwords, prompts and outputs stay where they belong: in no log line, error, repr, process title or record."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.queue.steps import body
from tests.redis_servers import Servers
from tests.trust.conftest import a_guarded
from tests.trust.guarded import Guarded, password
from tests.waiting import wait_until
from tests.worker_process import WorkerProcess

from busload import AsyncClient, BusloadError, BusloadUnavailable, Client, SettingsInvalid
from busload_shared.connection import open_redis
from busload_shared.queue import Queue
from busload_worker.settings import Settings

Start = Callable[..., WorkerProcess]

SECRET = "S3cretPa55"
PROMPT = "a-prompt-that-nobody-else-may-read"
NOT_THERE = "127.0.0.1:1"
"""Nobody listens on port 1."""

WRONG_URLS = [
    f"redis://user:{SECRET}@{NOT_THERE}/0",
    f"redis://:{SECRET}@{NOT_THERE}/0",
    f"redis://{NOT_THERE}/0?password={SECRET}&username=user",
    f"rediss://user:{SECRET}@{NOT_THERE}/0?ssl_password={SECRET}",
    f"unix://user:{SECRET}@/nowhere/redis.sock",
    f"redis+sentinel://user:{SECRET}@{NOT_THERE}/mymaster/0?sentinel_password={SECRET}",
    f"redis+cluster://user:{SECRET}@{NOT_THERE}",
    f"http://user:{SECRET}@{NOT_THERE}/0",
    f"redis://user:{SECRET}/{SECRET}@{NOT_THERE}/0",
    f"redis://user:{SECRET}#{SECRET}@{NOT_THERE}/0",
    f"redis://user:{SECRET}?{SECRET}@{NOT_THERE}/0",
    f"redis://user:{SECRET}@{SECRET}@{NOT_THERE}/0",
    f"redis://user:{SECRET}@{NOT_THERE}:port/0",
    f"redis://user:{SECRET}@[::1/0",
    f"user:{SECRET}@{NOT_THERE}",
    f"redis:/user:{SECRET}@{NOT_THERE}",
    SECRET,
]


def told(error: BaseException) -> str:
    """Everything an error says, with what it was raised from."""
    chain = "".join(traceback.format_exception(error))
    return f"{error!r} {error} {error.args} {vars(error)} {chain}"


@pytest.fixture
def guarded(redis_servers: Servers, guarded_servers: dict[str, Guarded]) -> Guarded:
    return a_guarded("7.0", redis_servers, guarded_servers)


async def submit_once(url: str) -> None:
    async with AsyncClient(url, patience_s=0) as client:
        await client.submit(prompt=PROMPT)


@pytest.mark.parametrize("url", WRONG_URLS)
async def test_a_client_with_a_wrong_url_says_nothing_of_its_password(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises((BusloadUnavailable, SettingsInvalid)) as refused:
        await submit_once(url)
    assert SECRET not in told(refused.value)
    assert PROMPT not in told(refused.value)
    assert SECRET not in caplog.text
    with pytest.raises((BusloadUnavailable, SettingsInvalid)) as refused_too, Client(url, patience_s=0) as synchronous:
        synchronous.submit(prompt=PROMPT)
    assert SECRET not in told(refused_too.value)


@pytest.mark.parametrize("url", WRONG_URLS)
async def test_a_worker_with_a_wrong_url_says_nothing_of_its_password(url: str, start_worker: Start) -> None:
    worker = start_worker(url, log_level="DEBUG")
    titles = process_titles(worker.process.pid)
    assert await worker.ended(timeout_s=60) in {2, 3}
    assert "cannot start" in worker.log() or "wrong setting" in worker.log()
    assert SECRET not in worker.log()
    assert SECRET not in titles


async def test_a_wrong_password_is_not_repeated(guarded: Guarded, start_worker: Start) -> None:
    url = guarded.url.replace("redis://", f"redis://worker:{SECRET}@")
    worker = start_worker(url, log_level="DEBUG")
    assert await worker.ended() == 3
    assert "user or password" in worker.log()
    assert SECRET not in worker.log()
    async with AsyncClient(url) as client:
        with pytest.raises(BusloadUnavailable) as refused:
            await client.submit(prompt=PROMPT)
    assert SECRET not in told(refused.value)


@pytest.mark.parametrize("url", WRONG_URLS[:7])
async def test_the_repr_of_what_holds_a_password_hides_it(url: str) -> None:
    redis = open_redis(url, queue="busload:default")
    connection = redis.connection_pool.make_connection()
    settings = Settings(redis_url=url)
    client = AsyncClient(url)
    try:
        wiring = client._wires()
        parts = [redis, redis.connection_pool, connection, Queue(redis, "q"), settings, client, wiring, wiring.queue]
        assert SECRET not in " ".join([*map(repr, parts), *map(str, parts), settings.model_dump_json()])
        assert SECRET not in " ".join(repr(vars(part)) for part in (client, wiring))
    finally:
        await client.close()
        await redis.aclose()


@pytest.mark.parametrize(
    "words",
    [["--redis-ulr", f"redis://:{SECRET}@h/0"], [f"redis://:{SECRET}@h/0"], [f"--redis-url=http://:{SECRET}@h/0"]],
)
def test_a_wrong_command_line_is_told_without_the_password(words: list[str]) -> None:
    """Others can read it in the list of processes all the same: the variable is the better place."""
    done = subprocess.run(
        [sys.executable, "-m", "busload_worker", *words], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert done.stderr
    assert SECRET not in done.stderr + done.stdout


@pytest.mark.parametrize(
    "line", ['redis_ulr = "redis://:{}@h/0"', 'redis_url = ["redis://:{}@h/0"]', "redis_url = redis://:{}@h/0"]
)
def test_a_wrong_settings_file_is_told_without_the_password(tmp_path: Path, line: str) -> None:
    file = tmp_path / "busload.toml"
    file.write_text(line.format(SECRET) + "\n", encoding="utf-8")
    environment = os.environ | {"BUSLOAD_SETTINGS_FILE": str(file)}
    command = [sys.executable, "-m", "busload_worker"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert done.returncode == 2, done.stderr
    assert SECRET not in done.stderr + done.stdout


def process_titles(pid: int) -> str:
    """The command lines of a process and of all its children, as every user of the machine can read them."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            stat = (process / "stat").read_text(encoding="utf-8").rpartition(") ")[2].split()
            if int(process.name) == pid or int(stat[1]) == pid:
                found.append((process / "cmdline").read_bytes().decode("utf-8", "replace"))
        except (OSError, IndexError):  # gone meanwhile
            continue
    return "\n".join(found)


async def test_a_worker_at_work_shows_neither_password_nor_prompts_nor_outputs(
    guarded: Guarded, start_worker: Start
) -> None:
    url, secret = guarded.url_for("worker"), password("worker")
    worker = await start_worker(
        url, log_level="DEBUG", engine_host="process", fake_overhead_ms=20, lease_s=1, max_batch_size=4
    ).ready()
    titles = process_titles(worker.process.pid)
    texts = await work_of_every_kind(guarded)
    with guarded.client() as redis:
        records = b"".join(redis.dump(key) for key in redis.keys("*")).decode("utf-8", "replace")
        clients = str(redis.client_list())
        record = redis.get(f"{{busload:default}}:worker:{worker_name(redis)}").decode()
    worker.signal(signal.SIGTERM)
    assert await worker.ended() == 0

    loud = "\n".join(line for line in worker.log().splitlines() if '"level": "DEBUG"' not in line)
    assert "batch done" in loud
    assert "batch died" in loud
    for text in (PROMPT, *texts):
        assert text not in loud
    assert '"state":' in record
    assert titles.count("busload_worker") >= 2
    encoded = url.partition(":")[2].split("@")[0].rpartition(":")[2]
    for word in (secret, encoded):
        assert word not in worker.log() + titles + records + clients


def worker_name(redis: object) -> str:
    (name,) = redis.zrange("{busload:default}:workers", 0, -1)  # type: ignore[attr-defined]
    return name.decode()


async def work_of_every_kind(guarded: Guarded) -> list[str]:
    """Good requests, bad ones, a cancel, an engine's error and its death. Returns texts that were written."""
    async with AsyncClient(guarded.url_for("producer"), patience_s=20) as client:
        results = [await client.generate(prompt=PROMPT, max_tokens=8, timeout_s=60) for _ in range(3)]
        with guarded.as_user("producer") as redis:
            redis.lpush("busload:default", PROMPT, body("bad", prompt=PROMPT, max_token=1))
        await client.result("bad", timeout_s=60)
        for fault in ("error", "crash"):
            await client.submit(id=fault, prompt=PROMPT, metadata={"fake": fault})
            assert (await client.result(fault, timeout_s=60)).status == "failed"
        await client.cancel("late")
        await client.generate(id="late", prompt=PROMPT, timeout_s=60)
        with pytest.raises(BusloadError) as refused:
            await client.submit(prompt=PROMPT, max_token=1)
        assert PROMPT not in told(refused.value).replace(f'prompt="{PROMPT}"', "")
    return [one.text for one in results if one.text]


async def test_a_client_at_work_logs_neither_password_nor_prompts(
    guarded: Guarded, start_worker: Start, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    await start_worker(guarded.url_for("worker")).ready()
    async with AsyncClient(guarded.url_for("producer"), patience_s=20) as client:
        result = await client.generate(prompt=PROMPT, max_tokens=8, timeout_s=60)
        guarded.kill_connections()

        async def answers() -> bool:
            return (await client.status(result.id)).state == "answered"

        await wait_until(answers)
    assert result.text
    for word in (PROMPT, result.text, password("producer")):
        assert word not in caplog.text
