"""`busload migrate` and `busload-worker` as processes, this version's and one of the future's."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from redis.asyncio import Redis
from tests.redis_servers import Server
from tests.upgrade.next_version import letters_of
from tests.waiting import wait_until
from tests.worker_process import WorkerProcess

from busload_shared.keys import Keys

ROOT = Path(__file__).parents[2]
KEYS = Keys("busload:default")
LETTERS = [f"letter {number}" for number in range(60)]
Next = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def next_version(any_server: Server) -> Iterator[Next]:
    """Start a command of the version of the future; it is gone when the test ends."""
    started: list[subprocess.Popen[str]] = []

    def run(*words: str, **environment: str) -> subprocess.Popen[str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("BUSLOAD_")}
        given = {"BUSLOAD_REDIS_URL": any_server.url, "BUSLOAD_ENGINE": "fake"} | environment
        command = [sys.executable, "-m", "tests.upgrade.next_version", *words]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        started.append(subprocess.Popen(command, cwd=ROOT, env=clean | given, text=True, **pipes))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.communicate()


async def end_of(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Its exit code, and what it said."""
    said, _ = await asyncio.to_thread(process.communicate, timeout=60)
    return process.returncode, said


async def test_a_worker_on_keys_of_a_newer_layout_ends_with_3_and_says_who_must_act(any_server: Server) -> None:
    async with Redis(port=any_server.port) as redis:
        await redis.set(KEYS.layout, 2)
        worker = WorkerProcess(any_server.url)
        try:
            assert await worker.ended() == 3
            assert "cannot start: the keys of busload:default have layout 2" in worker.log()
            assert "knows no more than 1: upgrade it" in worker.log()
        finally:
            worker.close()
        assert await redis.keys("*") == [KEYS.layout.encode()]


async def test_an_upgrade_that_is_killed_in_the_middle_goes_on_and_loses_nothing(
    any_server: Server, next_version: Next
) -> None:
    """A worker of this version; then the next one, which says what to do; the change, killed; again; then it starts."""
    async with Redis(port=any_server.port) as redis:
        await redis.rpush(KEYS.dead, *LETTERS)
        older = await WorkerProcess(any_server.url).ready()
        try:
            code, said = await end_of(next_version("worker"))
            assert (code, "layout 1, this worker needs 2: stop the older workers" in said) == (3, True), said
            code, said = await end_of(next_version("migrate", "--yes"))
            assert (code, "1 workers of busload:default are up" in said) == (3, True), said
            older.signal(signal.SIGTERM)
            assert await older.ended() == 0
        finally:
            older.close()
        code, said = await end_of(next_version("migrate", "--dry-run"))
        assert (code, "to 2: dead letters move into a hash" in said) == (1, True), said

        async def some_moved() -> bool:
            return int(await redis.hlen(letters_of(KEYS))) >= 5

        killed = next_version("migrate", "--yes", LETTER_MS="100")
        await wait_until(some_moved, what="the change is under way")
        killed.kill()
        killed.wait()
        assert 0 < await redis.llen(KEYS.dead) < len(LETTERS)
        code, said = await end_of(next_version("worker"))
        assert (code, "that was interrupted: run `busload migrate`" in said) == (3, True), said

        async def lease_is_over() -> bool:
            return not await redis.exists(KEYS.migrating)

        await wait_until(lease_is_over, what="the killed one's lease is over")
        code, said = await end_of(next_version("migrate", "--yes"))
        assert code == 0, said
        assert "was begun and interrupted" in said
        assert "busload:default has layout 2" in said
        assert await redis.llen(KEYS.dead) == 0
        assert sorted(await redis.hvals(letters_of(KEYS))) == sorted(text.encode() for text in LETTERS)
        await a_worker_starts(next_version, redis)


async def a_worker_starts(next_version: Next, redis: Redis) -> None:
    newer = next_version("worker")

    async def listed() -> bool:
        return bool(await redis.zcard(KEYS.workers))

    await wait_until(listed, what="the next version's worker is on the list")
    newer.send_signal(signal.SIGTERM)
    code, said = await end_of(newer)
    assert code == 0, said


async def test_without_a_terminal_nothing_is_changed_unless_meant(any_server: Server, next_version: Next) -> None:
    async with Redis(port=any_server.port) as redis:
        await redis.rpush(KEYS.dead, "a")
        code, said = await end_of(next_version("migrate"))
        assert (code, "give --yes if you mean it" in said) == (2, True), said
        assert await redis.llen(KEYS.dead) == 1
