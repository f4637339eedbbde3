"""A batch through the real vLLM: right answers, one unit, early release, and nobody fails for a neighbour."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from typing import Any

import pytest

from busload_shared.errors import EngineDied
from busload_shared.request import Request
from busload_worker.engines.host import EngineHost
from busload_worker.engines.protocol import (
    BatchDone,
    BatchStarted,
    EngineEvent,
    EngineRow,
    RowDone,
    RowRefused,
)

from .conftest import MAX_MODEL_LEN, SEATS

pytestmark = [pytest.mark.engine, pytest.mark.asyncio(loop_scope="session")]


def a_row(index: int, **fields: Any) -> EngineRow:
    given: dict[str, Any] = {"id": f"r{index}", "max_tokens": 8, "temperature": 0.0} | fields
    if not {"messages", "prompt_token_ids"} & set(given):
        given.setdefault("prompt", "The capital of France is")
    return EngineRow(index=index, request=Request(**given))


def a_neighbour(index: int) -> EngineRow:
    """A row that can only answer with its own number."""
    return a_row(index, prompt="Say it:", regex=f"row number {index}", max_tokens=16)


async def told(host: EngineHost, *rows: EngineRow) -> list[EngineEvent]:
    return [event async for event in host.run("b", rows)]


def rows_done(events: list[EngineEvent]) -> dict[int, RowDone]:
    return {event.index: event for event in events if isinstance(event, RowDone)}


def refusals(events: list[EngineEvent]) -> dict[int, RowRefused]:
    return {event.index: event for event in events if isinstance(event, RowRefused)}


def the_end(events: list[EngineEvent]) -> BatchDone:
    assert isinstance(events[-1], BatchDone)
    return events[-1]


async def test_it_answers_a_text_a_chat_and_token_ids(vllm: EngineHost) -> None:
    question = {"role": "user", "content": "Name the capital of France."}
    events = await told(
        vllm,
        a_row(0),
        a_row(1, messages=(question,), max_tokens=20),
        a_row(2, prompt_token_ids=(504, 3575, 282, 4649, 314), return_token_ids=True, logprobs=2),
    )
    done = rows_done(events)
    assert all("Paris" in row.outputs[0].text for row in done.values())
    assert done[1].outputs[0].finish_reason == "stop"
    output = done[2].outputs[0]
    assert output.text == done[0].outputs[0].text
    assert output.finish_reason == "length"
    assert output.token_ids is not None
    assert output.logprobs is not None
    assert len(output.token_ids) == len(output.logprobs) == done[2].usage.completion_tokens == 8
    assert [position[0].token_id for position in output.logprobs] == list(output.token_ids)
    assert done[2].usage.prompt_tokens == 5
    assert done[0].outputs[0].token_ids is None
    assert done[0].outputs[0].logprobs is None


async def test_a_full_batch_of_mixed_lengths_runs_as_one_unit_and_short_rows_get_off_early(
    vllm: EngineHost,
) -> None:
    lengths = [4 + 3 * index for index in range(SEATS)]
    rows = [
        a_row(index, prompt="word " * (1 + index * 7), max_tokens=length, ignore_eos=True)
        for index, length in enumerate(lengths)
    ]
    seen: list[tuple[float, EngineEvent]] = []
    began = time.monotonic()
    async for event in vllm.run("b", rows):
        seen.append((time.monotonic() - began, event))
    events = [event for _, event in seen]
    assert isinstance(events[0], BatchStarted)
    assert events[0].rows == SEATS
    assert [event.index for event in events if isinstance(event, RowDone)] == list(range(SEATS))
    done = rows_done(events)
    assert [done[index].usage.completion_tokens for index in range(SEATS)] == lengths
    assert all(row.proof is not None and row.proof.holds for row in done.values())
    proof = the_end(events).proof
    assert proof is not None
    assert (proof.spread_ms, proof.preemptions) == (0, 0)
    assert seen[1][0] < seen[-1][0] / 2, "the shortest was out before half of the batch's time"
    assert done[0].ran_ms < done[SEATS - 1].ran_ms


async def test_one_batch_begins_after_the_last_token_of_the_one_before(vllm: EngineHost) -> None:
    await told(vllm, a_row(0))
    proof = the_end(await told(vllm, a_row(0), a_row(1))).proof
    assert proof is not None
    assert proof.gap_ms is not None
    assert proof.gap_ms >= 0


DEEP: dict[str, Any] = {"type": "object"}
for _ in range(60):
    DEEP = {"type": "object", "properties": {"a": DEEP}}

BAD: dict[str, tuple[dict[str, Any], str]] = {
    "a text that is too long": ({"prompt": "word " * 2000}, "prompt_too_long"),
    "a text of a megabyte": ({"prompt": "a" * 1_000_000}, "prompt_too_long"),
    "ids that leave no room": ({"prompt_token_ids": (5,) * MAX_MODEL_LEN}, "prompt_too_long"),
    "a chat that is too long": (
        {"messages": ({"role": "user", "content": "word " * 300},)},
        "prompt_too_long",
    ),
    "an id out of the vocabulary": ({"prompt_token_ids": (5, 49_152)}, "invalid_request"),
    "an id out of all bounds": ({"prompt_token_ids": (2**40,)}, "invalid_request"),
    "a stop id out of the vocabulary": ({"stop_token_ids": (2**40,)}, "invalid_request"),
    "a temperature that vLLM refuses": ({"temperature": 50.0}, "invalid_request"),
    "a regex that is none": ({"regex": "((("}, "invalid_request"),
    "a grammar that is none": ({"grammar": "this is no grammar ::="}, "invalid_request"),
    "a schema of no type": ({"json_schema": {"type": "nonsense"}}, "invalid_request"),
    "a schema with a dead reference": ({"json_schema": {"$ref": "#/nowhere"}}, "invalid_request"),
    "a regex that compiles nowhere": ({"regex": "\\p{L}+"}, "invalid_request"),
    "a schema that is its own reference": (
        {"json_schema": {"$defs": {"n": {"$ref": "#/$defs/n"}}, "$ref": "#/$defs/n"}},
        "invalid_request",
    ),
    "a bound of 400 digits": ({"json_schema": {"type": "integer", "minimum": 10**400}}, "invalid_request"),
    "a schema that is too deep": ({"json_schema": DEEP}, "invalid_request"),
}


@pytest.mark.parametrize("what", BAD)
async def test_one_bad_row_is_refused_alone(vllm: EngineHost, what: str) -> None:
    fields, code = BAD[what]
    events = await told(vllm, a_neighbour(0), a_row(1, **fields), a_neighbour(2))
    assert refusals(events)[1].code == code
    assert refusals(events)[1].message
    done = rows_done(events)
    assert {index: row.outputs[0].text for index, row in done.items()} == {
        0: "row number 0",
        2: "row number 2",
    }
    proof = the_end(events).proof
    assert proof is not None
    assert proof.holds


async def test_all_bad_rows_together_leave_the_good_one_its_answer(vllm: EngineHost) -> None:
    bad = [a_row(index, **fields) for index, (fields, _) in enumerate(BAD.values())]
    good = a_neighbour(len(bad))
    events = await told(vllm, *bad, good)
    assert sorted(refusals(events)) == list(range(len(bad)))
    assert rows_done(events)[good.index].outputs[0].text == f"row number {good.index}"


async def test_a_batch_of_bad_rows_only_is_done_at_once(vllm: EngineHost) -> None:
    events = await told(vllm, a_row(0, regex="((("), a_row(1, prompt="word " * 2000))
    assert sorted(refusals(events)) == [0, 1]
    assert the_end(events).completion_tokens == 0


async def test_what_is_odd_but_allowed_is_answered(vllm: EngineHost) -> None:
    events = await told(
        vllm,
        a_row(0, prompt_token_ids=(5,) * (MAX_MODEL_LEN - 1), max_tokens=50),
        a_row(1, prompt="word " * 250, max_tokens=1_000_000, min_tokens=1_000, ignore_eos=True),
        a_row(2, prompt="\x00"),
        a_row(3, messages=({"role": "banana", "content": ""},), max_tokens=1),
        a_row(4, temperature=1.0, seed=-(2**63)),
        a_row(5, temperature=1.0, seed=2**63 - 1, top_k=-1, min_p=1.0),
        a_row(6, stop=("Paris",), stop_token_ids=(49_151,)),
        a_row(7, temperature=1.0, n=3, max_tokens=4, ignore_eos=True),
        a_row(8, choice=("yes", "no"), logprobs=20),
    )
    done = rows_done(events)
    assert sorted(done) == list(range(9)), refusals(events)
    assert (done[0].outputs[0].finish_reason, done[0].usage.completion_tokens) == ("length", 1)
    assert done[1].outputs[0].finish_reason == "length"
    assert done[1].usage.total_tokens == MAX_MODEL_LEN
    assert (done[6].outputs[0].finish_reason, done[6].outputs[0].stop_reason) == ("stop", "Paris")
    assert [output.index for output in done[7].outputs] == [0, 1, 2]
    assert done[7].usage.completion_tokens == 12


async def test_structured_and_plain_rows_are_admitted_in_one_step(vllm: EngineHost) -> None:
    exact = {"required": ["ok"], "additionalProperties": False}
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}} | exact
    events = await told(
        vllm,
        a_row(0),
        *(
            a_row(
                index, json_schema=schema | {"additionalProperties": False}, max_tokens=60, temperature=1.0, seed=index
            )
            for index in (1, 6, 7, 8)
        ),
        a_row(2),
        a_row(3, choice=("yes", "no")),
        a_row(4, regex="[a-c]{3}[0-9]{2}"),
        a_row(5, grammar='root ::= "left" | "right"'),
    )
    done = rows_done(events)
    # JSON may hold any white space, and a small model can go on with it until its tokens are used up
    ended = [done[index].outputs[0] for index in (1, 6, 7, 8) if done[index].outputs[0].finish_reason == "stop"]
    assert ended
    assert all(isinstance(json.loads(output.text)["ok"], bool) for output in ended)
    assert done[3].outputs[0].text in ("yes", "no")
    assert re.fullmatch("[a-c]{3}[0-9]{2}", done[4].outputs[0].text)
    assert done[5].outputs[0].text in ("left", "right")
    proof = the_end(events).proof
    assert proof is not None
    assert proof.holds
    assert proof.spread_ms == 0


async def test_samples_beyond_the_seats_ride_in_parts_and_nobody_is_refused(vllm: EngineHost) -> None:
    rows = [a_row(index, n=6, temperature=1.0, max_tokens=2, ignore_eos=True) for index in range(5)]
    events = await told(vllm, *rows)
    done = rows_done(events)
    assert [len(done[index].outputs) for index in range(5)] == [6] * 5
    proof = the_end(events).proof
    assert proof is not None
    assert proof.holds


async def test_an_aborted_row_leaves_and_the_others_are_answered(vllm: EngineHost) -> None:
    events = []
    rows = [
        a_row(0, max_tokens=240, ignore_eos=True),
        a_neighbour(1),
        a_row(2, n=4, temperature=1.0, max_tokens=240, ignore_eos=True),
    ]
    async for event in vllm.run("b", rows):
        events.append(event)
        if isinstance(event, BatchStarted):
            vllm.abort(frozenset({0, 2}))
    assert list(rows_done(events)) == [1]
    assert the_end(events).completion_tokens < 100
    assert list(rows_done(await told(vllm, a_neighbour(7)))) == [7]


async def test_a_killed_engine_is_noticed_at_once_and_comes_back(vllm: EngineHost) -> None:
    first = vllm.pid
    assert first is not None
    killed = 0.0

    async def run_and_kill() -> None:
        nonlocal killed
        async for event in vllm.run("b", [a_row(0, max_tokens=1), a_row(1, max_tokens=240)]):
            if isinstance(event, RowDone) and not killed:
                killed = time.monotonic()
                os.kill(first, signal.SIGKILL)

    with pytest.raises(EngineDied, match="SIGKILL"):
        await run_and_kill()
    assert time.monotonic() - killed < 2
    await vllm.start()
    assert vllm.pid != first
    assert "Paris" in rows_done(await told(vllm, a_row(0)))[0].outputs[0].text
