"""The engine's process dies, hangs, is stopped or outlives its worker: each is noticed and cleaned up."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time

import pytest

from busload_shared.errors import EngineDied, EngineStartFailed
from busload_worker.engines.fake_model import FakeCurve
from busload_worker.engines.host import EngineHost
from busload_worker.engines.protocol import (
    RowDone,
)
from busload_worker.engines.stall import Stall

from .hosts import a_host, a_row, alive, texts, told, until


async def test_a_kill_is_noticed_at_once_and_a_restart_works(host: EngineHost) -> None:
    first = host.pid
    assert first is not None
    killed = 0.0
    seen = []

    async def run_and_kill() -> None:
        nonlocal killed
        async for event in host.run("b", [a_row(0), a_row(1, max_tokens=1000)]):
            seen.append(event)
            if isinstance(event, RowDone):
                killed = time.monotonic()
                os.kill(first, signal.SIGKILL)

    with pytest.raises(EngineDied, match="SIGKILL"):
        await run_and_kill()
    assert time.monotonic() - killed < 1
    assert list(texts(seen)) == [0], "what ended before the death was told"
    with pytest.raises(EngineDied):
        await told(host, a_row(0))
    await host.start()
    assert host.pid != first
    assert len(texts(await told(host, a_row(0)))) == 1


async def test_a_death_while_idle_is_logged_and_known_to_the_next_run(
    host: EngineHost, caplog: pytest.LogCaptureFixture
) -> None:
    assert host.pid is not None
    os.kill(host.pid, signal.SIGKILL)
    await until(lambda: host.pid is None, within_s=2)
    assert any(record.levelno == logging.ERROR for record in caplog.records)
    with pytest.raises(EngineDied, match="SIGKILL"):
        await told(host, a_row(0))


async def test_a_core_that_crashes_or_exits_by_itself_is_dead() -> None:
    for fault, how in (("crash", "SIGKILL"), ("exit", "exit status 3")):
        host = a_host()
        await host.start()
        with pytest.raises(EngineDied, match=how):
            await told(host, a_row(0, metadata={"fake": fault}))


async def test_a_stopped_process_is_taken_for_hung_and_killed() -> None:
    host = a_host(hang_s=0.5)
    await host.start()
    pid = host.pid
    assert pid is not None
    stopped = 0.0

    async def run_and_stop() -> None:
        nonlocal stopped
        async for _ in host.run("b", [a_row(0, max_tokens=1000)]):
            stopped = time.monotonic()
            os.kill(pid, signal.SIGSTOP)

    with pytest.raises(EngineDied, match=r"hung.*silent"):
        await run_and_stop()
    assert 0.4 < time.monotonic() - stopped < 1.5
    assert not alive(pid)


async def test_an_engine_that_makes_no_step_is_hung_though_its_process_is_alive() -> None:
    host = a_host(hang_s=0.5)
    await host.start()
    with pytest.raises(EngineDied, match=r"hung.*alive"):
        await told(host, a_row(0, metadata={"fake": "hang"}))
    await host.start()
    assert len(texts(await told(host, a_row(0)))) == 1
    await host.stop()


async def test_a_long_batch_that_makes_steps_is_not_hung() -> None:
    host = a_host(FakeCurve(per_token_ms=1500), hang_s=0.4)
    await host.start()
    assert len(texts(await told(host, a_row(0)))) == 1
    await host.stop()


def test_our_own_pause_is_not_held_against_the_engine() -> None:
    stall = Stall(8.0, now=0.0)
    stall.look(progress=1, beats=1, now=1.0)
    stall.look(progress=1, beats=1, now=1000.0)
    assert not stall.hung
    for second in range(8):
        stall.look(progress=1, beats=1, now=1001.0 + second)
    assert stall.hung


async def test_a_kill_ends_a_run_that_hangs(host: EngineHost) -> None:
    run = asyncio.create_task(told(host, a_row(0, metadata={"fake": "hang"})))
    await asyncio.sleep(0.05)
    await host.kill()
    with pytest.raises(EngineDied):
        await run


async def test_a_core_that_cannot_be_imported_says_which_setting() -> None:
    for core in ("nowhere.at_all:Core", "nonsense", "json:NoSuchClass"):
        host = EngineHost(core, "{}", start_timeout_s=30, hang_s=1)
        with pytest.raises(EngineStartFailed, match="BUSLOAD_ENGINE"):
            await host.start()
        assert host.pid is None


async def test_a_start_that_takes_too_long_is_ended() -> None:
    host = EngineHost("fake", FakeCurve(), start_timeout_s=0.01, hang_s=1)
    with pytest.raises(EngineStartFailed, match="BUSLOAD_ENGINE_START_S"):
        await host.start()
    assert host.pid is None


async def test_a_stop_ends_the_process_in_good_order(host: EngineHost, caplog: pytest.LogCaptureFixture) -> None:
    pid = host.pid
    assert pid is not None
    await host.stop()
    assert not alive(pid)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    await host.stop()


PARENT = """
import asyncio, signal, sys
from busload_shared.request import Request
from busload_worker.engines.fake_model import FakeCurve
from busload_worker.engines.host import EngineHost
from busload_worker.engines.protocol import EngineRow

async def main():
    signal.signal(signal.SIGTERM, lambda *_: None)
    host = EngineHost("fake", FakeCurve(per_token_ms=20), start_timeout_s=30, hang_s=30)
    await host.start()
    print(host.pid, flush=True)
    row = EngineRow(index=0, request=Request(id="r", prompt="p", max_tokens=int(sys.argv[1])))
    async for event in host.run("b", [row]):
        print(event.event, flush=True)
    await host.stop()

asyncio.run(main())
"""


async def a_parent(tokens: int) -> tuple[asyncio.subprocess.Process, int]:
    parent = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PARENT,
        str(tokens),
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert parent.stdout is not None
    child = int(await parent.stdout.readline())
    assert await parent.stdout.readline() == b"started\n"
    return parent, child


async def test_a_worker_that_is_killed_leaves_no_engine_behind() -> None:
    parent, child = await a_parent(tokens=10_000)
    parent.kill()
    assert await until(lambda: not alive(child), within_s=2) < 2
    await parent.wait()


async def test_a_signal_to_the_workers_group_does_not_reach_the_batch() -> None:
    parent, child = await a_parent(tokens=20)
    os.killpg(parent.pid, signal.SIGTERM)
    rest, _ = await parent.communicate()
    assert rest.split() == [b"row", b"done"]
    assert parent.returncode == 0
    assert not alive(child)
