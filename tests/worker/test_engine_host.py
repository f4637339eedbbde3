"""The host around a core that needs no model: its process dies, hangs and lies, and the worker goes on."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from busload_shared.errors import BatchFailed, EngineDied, EngineStartFailed, RequestInvalid
from busload_shared.request import Request, parse_request
from busload_worker.engines.fake_model import FakeCurve, output_text
from busload_worker.engines.host import EngineHost
from busload_worker.engines.protocol import (
    BatchDone,
    BatchStarted,
    EngineEvent,
    EngineRow,
    RowDone,
    RowRefused,
)
from busload_worker.engines.stall import Stall

SLOW = FakeCurve(per_token_ms=20)


def a_host(curve: FakeCurve = SLOW, *, hang_s: float = 30) -> EngineHost:
    return EngineHost("fake", curve, start_timeout_s=30, hang_s=hang_s)


def a_row(index: int, **fields: Any) -> EngineRow:
    given = {"id": f"r{index}", "prompt": f"prompt {index}", "max_tokens": 1} | fields
    return EngineRow(index=index, request=Request(**given))


async def told(host: EngineHost, *rows: EngineRow, batch: str = "b") -> list[EngineEvent]:
    return [event async for event in host.run(batch, rows)]


def texts(events: list[EngineEvent]) -> dict[int, str]:
    return {event.index: event.outputs[0].text for event in events if isinstance(event, RowDone)}


async def until(true: Callable[[], bool], *, within_s: float) -> float:
    """Wait for it; returns how long it took, in seconds."""
    began = time.monotonic()
    while not true():
        assert time.monotonic() - began < within_s, f"not within {within_s} s"
        await asyncio.sleep(0.005)
    return time.monotonic() - began


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture
async def host() -> AsyncIterator[EngineHost]:
    host = a_host()
    await host.start()
    yield host
    await host.kill()


async def test_each_row_is_told_the_moment_it_ends_and_is_its_own(host: EngineHost) -> None:
    rows = [a_row(0, max_tokens=10), a_row(1, max_tokens=1), a_row(2, max_tokens=5)]
    when: list[tuple[float, EngineEvent]] = []
    began = time.monotonic()
    async for event in host.run("b", rows):
        when.append((time.monotonic() - began, event))
    events = [event for _, event in when]
    assert isinstance(events[0], BatchStarted)
    assert isinstance(events[-1], BatchDone)
    assert [event.index for event in events if isinstance(event, RowDone)] == [1, 2, 0]
    assert texts(events) == {row.index: output_text(row.request) for row in rows}
    assert when[1][0] < when[-1][0] - 0.1, "the short row came long before the batch's end"


async def test_a_host_runs_batch_after_batch_on_one_process(host: EngineHost) -> None:
    pid = host.pid
    for batch in range(20):
        assert len(texts(await told(host, a_row(0), a_row(1), batch=f"b{batch}"))) == 2
    assert host.pid == pid


async def test_an_empty_batch_starts_and_is_done(host: EngineHost) -> None:
    assert [event.event for event in await told(host)] == ["started", "done"]


async def test_a_refused_row_leaves_its_neighbours_alone(host: EngineHost) -> None:
    events = await told(host, a_row(0), a_row(1, metadata={"fake": "refuse"}), a_row(2))
    assert [event.index for event in events if isinstance(event, RowRefused)] == [1]
    assert sorted(texts(events)) == [0, 2]


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


async def test_an_engine_that_loses_a_row_fails_the_batch_with_both_numbers(host: EngineHost) -> None:
    rows = [a_row(0), a_row(1, metadata={"fake": "drop"}), a_row(2)]
    with pytest.raises(BatchFailed, match=r"given 3 rows and told of 2.*missing: 1"):
        await told(host, *rows)
    assert len(texts(await told(host, a_row(0)))) == 1


async def test_a_batch_that_raises_fails_alone_and_the_process_lives(host: EngineHost) -> None:
    pid = host.pid
    with pytest.raises(BatchFailed, match="RuntimeError"):
        await told(host, a_row(0, metadata={"fake": "error"}), a_row(1, max_tokens=5))
    assert texts(await told(host, a_row(7))) == {7: output_text(a_row(7).request)}
    assert host.pid == pid


async def test_an_aborted_row_gets_no_event_and_shortens_the_batch(host: EngineHost) -> None:
    began = time.monotonic()
    events = []
    async for event in host.run("b", [a_row(0, max_tokens=500), a_row(1), a_row(2, max_tokens=3)]):
        events.append(event)
        if isinstance(event, BatchStarted):
            host.abort(frozenset({0}))
    assert sorted(texts(events)) == [1, 2]
    assert isinstance(events[-1], BatchDone)
    assert time.monotonic() - began < 5


async def test_a_run_given_up_is_aborted_and_the_next_gets_only_its_own(host: EngineHost) -> None:
    async with contextlib.aclosing(host.run("old", [a_row(0, max_tokens=500), a_row(1)])) as run:
        async for event in run:
            if isinstance(event, RowDone):
                break
    began = time.monotonic()
    assert list(texts(await told(host, a_row(5), batch="new"))) == [5]
    assert time.monotonic() - began < 5


async def test_a_second_run_beside_the_first_is_refused(host: EngineHost) -> None:
    run = asyncio.create_task(told(host, a_row(0, max_tokens=20)))
    await asyncio.sleep(0.05)
    with pytest.raises(RuntimeError, match="one batch at a time"):
        await told(host, a_row(1))
    assert len(texts(await run)) == 1


async def test_rows_of_megabytes_pass_both_ways() -> None:
    host = a_host(FakeCurve())
    await host.start()
    rows = [a_row(n, prompt="x" * 900_000, max_tokens=400_000) for n in range(4)]
    events = await told(host, *rows)
    assert texts(events) == {row.index: output_text(row.request) for row in rows}
    await host.stop()


async def test_a_row_that_cannot_be_written_is_refused_alone(host: EngineHost) -> None:
    junk = EngineRow(index=1, request=Request.model_construct(id="j", prompt="\ud800", max_tokens=1))
    events = await told(host, a_row(0), junk)
    assert [event.index for event in events if isinstance(event, RowRefused)] == [1]
    assert list(texts(events)) == [0]


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def deepest_metadata() -> dict[str, Any]:
    """The deepest that a worker's door lets through."""
    for depth in range(400, 0, -1):
        payload = f'{{"id":"a","prompt":"p","metadata":{{"deep":{"[" * depth}1{"]" * depth}}}}}'
        with contextlib.suppress(RequestInvalid):
            parse_request(payload.encode())
            return {"deep": nested(depth)}
    raise AssertionError("nothing is let through")


async def test_a_row_as_deep_as_may_be_passes_and_a_deeper_one_is_refused_alone(host: EngineHost) -> None:
    deep = a_row(0, metadata=deepest_metadata(), max_tokens=1)
    deeper = Request.model_construct(id="j", prompt="p", max_tokens=1, n=1, metadata={"deep": nested(5000)})
    events = await told(host, deep, EngineRow.model_construct(index=1, request=deeper), a_row(2))
    assert sorted(texts(events)) == [0, 2]
    assert [event.index for event in events if isinstance(event, RowRefused)] == [1]


async def test_a_core_that_cannot_be_imported_says_which_setting() -> None:
    for core in ("nowhere.at_all:Core", "nonsense", "json:NoSuchClass"):
        host = EngineHost(core, "{}", start_timeout_s=30, hang_s=1)
        with pytest.raises(EngineStartFailed, match="BUSLOAD_ENGINE"):
            await host.start()
        assert host.pid is None


async def test_a_start_that_takes_too_long_is_ended() -> None:
    host = EngineHost("fake", FakeCurve(), start_timeout_s=0.01, hang_s=1)
    with pytest.raises(EngineStartFailed, match="BUSLOAD_ENGINE_START_TIMEOUT_S"):
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
