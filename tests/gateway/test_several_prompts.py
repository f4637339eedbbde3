"""Several prompts in one call of /v1/completions: each is a request of its own, and the call is answered as one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import openai as errors
import pytest
from openai import OpenAI
from tests.gateway.gateway_process import GatewayProcess
from tests.gateway.test_callers import write_key
from tests.queue.steps import answer, board, result
from tests.waiting import wait_until
from tests.worker_process import WorkerProcess

from busload_shared.queue import Queue
from busload_shared.result import Output, ResultError, Status

PATH = "/v1/completions"
THREE = {"prompt": ["a", "b", "c"], "max_tokens": 4}


@pytest.fixture
async def caller() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=60) as client:
        yield client


def complete(client: OpenAI, prompt: Any, **named: Any) -> Any:
    return client.completions.create(**({"model": "fake", "prompt": prompt, "max_tokens": 3} | named))


def marks(answer: Any) -> list[str]:
    """Of each choice what the fake engine made of its prompt, without the request's id."""
    return [choice.text.split(":", 2)[2] for choice in answer.choices]


async def three_wait(queue: Queue, waiting_in: Callable[[Queue], Any]) -> list[str]:
    async def all_there() -> list[str]:
        found = [request.id for request in await waiting_in(queue)]
        return found if len(found) == 3 else []

    return await wait_until(all_there, what="three requests wait")


async def states(queue: Queue, names: list[str]) -> list[str]:
    return [status.result.status if status.result else status.state for status in await queue.status(names)]


async def all_cancelled(queue: Queue, names: list[str]) -> None:
    async def cancelled() -> bool:
        return await states(queue, names) == ["cancelled"] * len(names)

    await wait_until(cancelled, what="all are cancelled")


def test_choices_are_counted_through_the_call_and_usage_is_summed(openai: OpenAI) -> None:
    singles = [marks(complete(openai, text)) for text in ("one", "two", "three")]
    answer = complete(openai, ["one", "two", "three"], n=2)
    assert [choice.index for choice in answer.choices] == list(range(6))
    assert marks(answer)[::2] == [mark for [mark] in singles]
    assert answer.usage.completion_tokens == 18
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 18
    assert answer.id.startswith("cmpl-")
    assert answer.id.count("-") == 1


def test_token_lists_are_prompts_too(openai: OpenAI) -> None:
    answer = complete(openai, [[1, 2, 3], [4]])
    assert [choice.index for choice in answer.choices] == [0, 1]
    assert answer.usage.prompt_tokens == 4
    assert len(complete(openai, [7, 8]).choices) == len(complete(openai, [[7, 8]]).choices) == 1


def test_a_stream_has_a_chunk_for_each_row_and_one_usage(openai: OpenAI) -> None:
    chunks = list(complete(openai, ["a", "b"], n=2, stream=True, stream_options={"include_usage": True}))
    assert sorted(choice.index for chunk in chunks for choice in chunk.choices) == [0, 1, 2, 3]
    assert len({chunk.id for chunk in chunks}) == 1
    assert [chunk.usage.completion_tokens for chunk in chunks if chunk.usage] == [12]
    sent = {chunk.choices[0].index: marks(chunk)[0] for chunk in chunks if chunk.choices}
    assert [sent[place] for place in range(4)] == marks(complete(openai, ["a", "b"], n=2))


def test_the_prompts_of_a_call_are_bounded(openai: OpenAI) -> None:
    assert len(complete(openai, ["a"] * 128, max_tokens=1).choices) == 128
    with pytest.raises(errors.BadRequestError, match="129 prompts; 128 are the most") as told:
        complete(openai, ["a"] * 129)
    assert told.value.param == "prompt"
    for wrong in ([], ["a", ""], ["a", [1]], [[1], []]):
        with pytest.raises(errors.BadRequestError) as told:
            complete(openai, wrong)
        assert told.value.param == "prompt"


@pytest.mark.parametrize("stream", [False, True])
async def test_one_that_fails_fails_the_call_and_cancels_the_rest(
    stream: bool,
    start_gateway: Callable[..., GatewayProcess],
    lone_queue: Queue,
    waiting_in: Callable[[Queue], Any],
    caller: httpx.AsyncClient,
) -> None:
    gateway = start_gateway()
    call = asyncio.create_task(caller.post(gateway.url + PATH, json=THREE | {"stream": stream}))
    names = await three_wait(lone_queue, waiting_in)
    call_id = names[0].rpartition("-")[0]
    assert names == [f"{call_id}-{place}" for place in range(3)], "they came together, in order"
    cancelled = {"id": names[1], "status": "cancelled", "error": {"code": "cancelled", "message": "by somebody"}}
    await lone_queue.cancel(names[1], result=json.dumps(cancelled).encode(), ttl_s=60)
    answer = await call
    assert (answer.status_code, answer.json()["error"]["code"]) == (499, "cancelled")
    assert answer.headers["x-request-id"] == call_id
    await all_cancelled(lone_queue, names)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_caller_who_leaves_cancels_all(
    stream: bool,
    start_gateway: Callable[..., GatewayProcess],
    lone_queue: Queue,
    waiting_in: Callable[[Queue], Any],
    caller: httpx.AsyncClient,
) -> None:
    gateway = start_gateway()
    call = asyncio.create_task(caller.post(gateway.url + PATH, json=THREE | {"stream": stream}))
    names = await three_wait(lone_queue, waiting_in)
    call.cancel()
    await all_cancelled(lone_queue, names)


@pytest.mark.parametrize("stream", [False, True])
async def test_one_that_the_queue_does_not_take_cancels_those_it_took(
    stream: bool, start_gateway: Callable[..., GatewayProcess], lone_queue: Queue
) -> None:
    gateway = start_gateway(max_queue_length=2)
    client = OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0)
    with client, pytest.raises(errors.RateLimitError) as told:
        complete(client, ["a", "b", "c"], stream=stream)
    assert told.value.code == "queue_full"
    call_id = told.value.response.headers["x-request-id"]
    names = [f"{call_id}-{place}" for place in range(3)]
    assert await states(lone_queue, names) == ["cancelled", "cancelled", "unknown"]
    assert not await lone_queue.redis.exists(lone_queue.keys.cancel(names[2])), "nothing is left of what was refused"


async def test_a_call_that_is_made_again_under_its_key_finds_all_its_results(
    start_gateway: Callable[..., GatewayProcess],
    start_worker: Callable[..., WorkerProcess],
    lone_queue: Queue,
    waiting_in: Callable[[Queue], Any],
    caller: httpx.AsyncClient,
) -> None:
    gateway = start_gateway(request_timeout_s=0.3)
    named = {"Idempotency-Key": "order-7"}
    assert (await caller.post(gateway.url + PATH, json=THREE, headers=named)).status_code == 504
    assert await three_wait(lone_queue, waiting_in) == ["order-7-0", "order-7-1", "order-7-2"]
    await start_worker().ready()

    async def answered() -> httpx.Response | None:
        again = await caller.post(gateway.url + PATH, json=THREE, headers=named)
        return again if again.status_code == 200 else None

    again = await wait_until(answered, what="the second call is answered")
    assert again is not None
    assert (again.json()["id"], len(again.json()["choices"])) == ("cmpl-order-7", 3)
    assert (await lone_queue.info()).counters["succeeded"] == 3


def test_each_prompt_counts_for_the_rate(keys_file: Path, start_gateway: Callable[..., GatewayProcess]) -> None:
    write_key(keys_file, "s1", requests_per_s=0.01, burst=4)
    gateway = start_gateway(keys_file=keys_file, request_timeout_s=0.1)
    with OpenAI(base_url=f"{gateway.url}/v1", api_key="s1", max_retries=0) as client:
        with pytest.raises(errors.BadRequestError, match="4 prompts at once"):
            complete(client, ["a"] * 5)  # counts as the call it is
        with pytest.raises(errors.RateLimitError) as told:
            complete(client, ["a"] * 4)
        assert 90 <= int(told.value.response.headers["retry-after"]) <= 100
        with pytest.raises(errors.InternalServerError) as late:
            complete(client, ["a"] * 3)
        assert late.value.status_code == 504
        with pytest.raises(errors.RateLimitError):
            complete(client, "a")


async def test_a_streamed_row_comes_when_it_ends_and_a_failure_after_it_is_an_event(
    start_gateway: Callable[..., GatewayProcess],
    lone_queue: Queue,
    waiting_in: Callable[[Queue], Any],
    caller: httpx.AsyncClient,
) -> None:
    gateway = start_gateway()

    async def end(name: str, status: Status, **more: Any) -> None:
        claim = await board(lone_queue, name, cap=1)
        [seat] = claim.seats
        row = answer(seat, status)
        await lone_queue.deliver(name, [row._replace(result=result(row.id, status, **more))], ttl_s=60)

    body = THREE | {"stream": True}
    sending = asyncio.create_task(caller.send(caller.build_request("POST", gateway.url + PATH, json=body), stream=True))
    names = await three_wait(lone_queue, waiting_in)
    await end("b1", "succeeded", outputs=(Output(index=0, text="first", finish_reason="stop"),))
    response = await sending
    lines = response.aiter_lines()
    first = json.loads((await anext(lines))[5:])
    assert (first["id"], first["choices"][0]["text"]) == (f"cmpl-{names[0].rpartition('-')[0]}", "first")
    await end("b2", "failed", error=ResultError(code="engine_error", message="broke"))
    rest = [line async for line in lines if line.startswith("data:")]
    assert json.loads(rest[0][5:])["error"]["code"] == "engine_error"
    assert rest[1:] == ["data: [DONE]"]
    assert await states(lone_queue, names) == ["succeeded", "failed", "cancelled"]
