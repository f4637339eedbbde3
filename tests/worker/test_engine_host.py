"""The host around a core that needs no model: rows go in and out, alone and in their order."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path
from typing import Any

import pytest

from busload_shared.errors import BatchFailed, RequestInvalid
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

from .hosts import a_host, a_row, texts, told


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
    events = await told(host, deep, EngineRow(index=1, request=deeper), a_row(2))
    assert sorted(texts(events)) == [0, 2]
    assert [event.index for event in events if isinstance(event, RowRefused)] == [1]


async def test_the_engines_process_is_not_told_the_way_to_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSLOAD_REDIS_URL", "redis://user:password@127.0.0.1/0")
    host = a_host()
    await host.start()
    environment = await asyncio.to_thread(Path(f"/proc/{host.pid}/environ").read_bytes)
    await host.stop()
    assert b"PATH=" in environment
    assert b"BUSLOAD_REDIS_URL" not in environment
