"""The fake engine: answers belong to their requests, times follow the curve, faults come on demand."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from busload_shared.curve import ServiceCurve
from busload_shared.errors import BatchFailed, EngineDied
from busload_shared.request import Request
from busload_worker.engines.fake_engine import FakeEngine
from busload_worker.engines.fake_model import FakeCurve, output_text, output_tokens, plan_batch
from busload_worker.engines.protocol import (
    BatchDone,
    BatchStarted,
    EngineEvent,
    EngineRow,
    RowDone,
    RowRefused,
)
from busload_worker.simulation.riding import row_ends_ms


async def an_engine(**curve: float) -> FakeEngine:
    engine = FakeEngine(FakeCurve(**curve))
    await engine.start()
    return engine


def a_row(index: int, **fields: Any) -> EngineRow:
    given = {"id": f"r{index}", "prompt": f"prompt {index}", "max_tokens": 1} | fields
    return EngineRow(index=index, request=Request(**given))


async def told(engine: FakeEngine, *rows: EngineRow) -> list[EngineEvent]:
    return [event async for event in engine.run("b", rows)]


def texts(events: list[EngineEvent]) -> dict[int, str]:
    return {event.index: event.outputs[0].text for event in events if isinstance(event, RowDone)}


def test_a_text_is_the_same_every_time_and_its_requests_own() -> None:
    one = Request(id="a", prompt="p", max_tokens=7)
    assert output_text(one) == output_text(one)
    assert len(output_text(one).split()) == 7
    others = (
        one.model_copy(update={"id": "b"}),
        one.model_copy(update={"prompt": "q"}),
        Request(id="a", prompt_token_ids=(1,), max_tokens=7),
    )
    assert len({output_text(request) for request in (one, *others)} | {output_text(one, 1)}) == 5


def test_a_text_can_be_as_long_as_a_request_may_ask() -> None:
    assert len(output_text(Request(id="a", prompt="p", max_tokens=1_000_000)).split()) == 1_000_000


def test_the_metadata_may_shorten_an_output_but_not_lengthen_it() -> None:
    def tokens(wanted: Any) -> int:
        return output_tokens(Request(id="a", prompt="p", max_tokens=8, metadata={"fake_tokens": wanted}))

    assert [tokens(wanted) for wanted in (3, 0, 99, "3", True, None)] == [3, 1, 8, 8, 8, 8]


def test_a_row_ends_at_its_own_length_and_the_batch_at_the_longest() -> None:
    curve = FakeCurve(overhead_ms=100, per_request_ms=10, per_token_ms=2)
    plan = plan_batch([a_row(0, max_tokens=50), a_row(1, max_tokens=5), a_row(2, max_tokens=5)], curve)
    assert [(stop.at_ms, [row.index for row in stop.rows]) for stop in plan.stops] == [
        (140, [1, 2]),
        (230, [0]),
    ]


@pytest.mark.parametrize("lengths", [[7], [3, 50, 8, 8, 1], [20] * 16])
def test_it_follows_the_service_curve_that_is_simulated(lengths: list[int]) -> None:
    curve = FakeCurve(overhead_ms=12, per_prompt_token_ms=0.3, per_token_ms=4, per_row_token_ms=0.7)
    rows = [a_row(index, max_tokens=length, prompt="x" * 36) for index, length in enumerate(lengths)]
    plan = plan_batch(rows, curve)
    simulated = ServiceCurve(overhead_ms=12, prompt_ms=0.3, step_ms=4, token_ms=0.7)
    ends = row_ends_ms(simulated, prompt_tokens=9 * len(lengths), lengths=lengths)
    assert {row.index: stop.at_ms for stop in plan.stops for row in stop.rows} == pytest.approx(dict(enumerate(ends)))


async def test_every_row_is_told_once_between_the_start_and_the_end() -> None:
    engine = await an_engine()
    rows = [a_row(n, max_tokens=n + 1, n=1 + n % 2, return_token_ids=True, logprobs=1) for n in range(8)]
    events = await told(engine, *rows)
    assert isinstance(events[0], BatchStarted)
    assert isinstance(events[-1], BatchDone)
    assert texts(events) == {row.index: output_text(row.request) for row in rows}
    for event in events[1:-1]:
        assert isinstance(event, RowDone)
        assert RowDone.model_validate_json(event.model_dump_json()) == event
        assert len(event.outputs) == rows[event.index].request.n
        assert event.usage.completion_tokens == (event.index + 1) * len(event.outputs)


async def test_its_proof_holds_over_batches() -> None:
    engine = await an_engine(per_token_ms=1)
    for _ in range(3):
        done = (await told(engine, a_row(0), a_row(1, max_tokens=3)))[-1]
        assert isinstance(done, BatchDone)
        assert done.proof is not None
        assert done.proof.holds


async def test_a_short_row_gets_off_before_the_long_one() -> None:
    engine = await an_engine(per_token_ms=10)
    began = time.monotonic()
    when = {}
    async for event in engine.run("b", [a_row(0, max_tokens=20), a_row(1)]):
        if isinstance(event, RowDone):
            when[event.index] = time.monotonic() - began
    assert 0.01 <= when[1] < 0.1
    assert 0.2 <= when[0] < 0.5


async def test_an_aborted_row_gets_no_event_and_nobody_waits_for_it() -> None:
    engine = await an_engine(per_token_ms=10)
    began = time.monotonic()
    events = []
    async for event in engine.run("b", [a_row(0, max_tokens=1000), a_row(1, max_tokens=2)]):
        events.append(event)
        engine.abort(frozenset({0}))
    assert list(texts(events)) == [1]
    assert isinstance(events[-1], BatchDone)
    assert time.monotonic() - began < 1


async def test_a_refused_row_leaves_its_neighbours_alone() -> None:
    engine = await an_engine()
    events = await told(engine, a_row(0), a_row(1, metadata={"fake": "refuse"}), a_row(2))
    assert isinstance(events[0], RowRefused)
    assert sorted(texts(events)) == [0, 2]


async def test_an_unknown_fault_is_refused_by_name() -> None:
    events = await told(await an_engine(), a_row(0, metadata={"fake": "burn"}))
    assert isinstance(events[0], RowRefused)
    assert "crash" in events[0].message


@pytest.mark.parametrize(
    ("fault", "error"),
    [("crash", EngineDied), ("exit", EngineDied), ("error", BatchFailed), ("drop", BatchFailed)],
)
async def test_a_fault_ends_the_batch_and_a_start_makes_it_good(fault: str, error: type[Exception]) -> None:
    engine = await an_engine()
    with pytest.raises(error):
        await told(engine, a_row(0), a_row(1, metadata={"fake": fault}))
    if error is EngineDied:
        with pytest.raises(EngineDied):
            await told(engine, a_row(0))
        await engine.start()
    assert list(texts(await told(engine, a_row(0)))) == [0]


async def test_a_fault_takes_down_those_that_would_end_with_it_but_not_those_before() -> None:
    engine = await an_engine(per_token_ms=1)
    events = []

    async def collect() -> None:
        rows = [a_row(0, max_tokens=5), a_row(1), a_row(2, max_tokens=5, metadata={"fake": "crash"})]
        async for event in engine.run("b", rows):
            events.append(event)

    with pytest.raises(EngineDied):
        await collect()
    assert list(texts(events)) == [1]


async def test_a_hang_ends_with_a_kill_and_not_with_an_abort() -> None:
    engine = await an_engine()
    run = asyncio.create_task(told(engine, a_row(0, metadata={"fake": "hang"})))
    await asyncio.sleep(0.02)
    engine.abort(frozenset({0}))
    await asyncio.sleep(0.02)
    assert not run.done()
    await engine.kill()
    with pytest.raises(EngineDied):
        await run
