"""What happens while a caller waits: he leaves, nobody serves him, the gateway stops."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import openai as errors
import pytest
from openai import AsyncOpenAI, OpenAI
from tests.gateway.gateway_process import GatewayProcess
from tests.redis_servers import Server
from tests.waiting import wait_until
from tests.worker_process import WorkerProcess

from busload_shared.queue import Queue

BODY = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
PATH = "/v1/chat/completions"


@pytest.fixture
async def caller() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=60) as client:
        yield client


async def the_one_waiting(queue: Queue, waiting_in: Callable[[Queue], Any]) -> str:
    async def first() -> str | None:
        found = await waiting_in(queue)
        return found[0].id if found else None

    name = await wait_until(first, what="a request waits")
    assert name is not None
    return name


@pytest.mark.parametrize("stream", [False, True])
async def test_a_caller_who_leaves_cancels_his_request(
    stream: bool,
    start_gateway: Callable[..., GatewayProcess],
    lone_queue: Queue,
    waiting_in: Callable[[Queue], Any],
    caller: httpx.AsyncClient,
) -> None:
    gateway = start_gateway()
    call = asyncio.create_task(caller.post(gateway.url + PATH, json=BODY | {"stream": stream}))
    name = await the_one_waiting(lone_queue, waiting_in)
    call.cancel()

    async def cancelled() -> bool:
        [status] = await lone_queue.status([name])
        return status.result is not None and status.result.status == "cancelled"

    await wait_until(cancelled, what="the request is cancelled")

    async def told() -> bool:
        return any(line["code"] == "caller_gone" for line in gateway.lines("call"))

    await wait_until(told, what="the log tells of it")


async def test_one_with_an_idempotency_key_may_come_again(
    start_gateway: Callable[..., GatewayProcess],
    start_worker: Callable[..., WorkerProcess],
    lone_queue: Queue,
    waiting_in: Callable[[Queue], Any],
    caller: httpx.AsyncClient,
) -> None:
    gateway = start_gateway(request_timeout_s=0.3)
    first = await caller.post(gateway.url + PATH, json=BODY, headers={"Idempotency-Key": "order-7"})
    assert first.status_code == 504
    assert await the_one_waiting(lone_queue, waiting_in) == "order-7"
    await start_worker().ready()

    async def answered() -> httpx.Response | None:
        again = await caller.post(gateway.url + PATH, json=BODY, headers={"Idempotency-Key": "order-7"})
        return again if again.status_code == 200 else None

    again = await wait_until(answered, what="the second call is answered")
    assert again is not None
    assert again.json()["id"] == "chatcmpl-order-7"
    assert (await lone_queue.info()).counters["succeeded"] == 1


async def test_one_without_is_cancelled_when_its_time_is_over(
    start_gateway: Callable[..., GatewayProcess], lone_queue: Queue, caller: httpx.AsyncClient
) -> None:
    gateway = start_gateway(request_timeout_s=0.5)
    async with AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0, timeout=0.1) as hasty:
        with pytest.raises(errors.APITimeoutError):
            await hasty.completions.create(model="any", prompt="a")
    late = await caller.post(gateway.url + PATH, json=BODY, headers={"X-Request-Id": "trace 1"})
    assert late.status_code == 504
    assert late.headers["x-request-id"].startswith("trace-1.")
    [status] = await lone_queue.status([late.headers["x-request-id"]])
    assert status.result is not None
    assert status.result.status == "cancelled"


async def test_a_full_queue_is_too_many_requests(
    start_gateway: Callable[..., GatewayProcess], lone_queue: Queue
) -> None:
    gateway = start_gateway(max_queue_length=1)
    await lone_queue.submit([("a", b'{"id":"a","prompt":"a"}')], limit=10)
    with OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0) as client:
        for stream in (False, True):
            with pytest.raises(errors.RateLimitError) as told:
                client.completions.create(model="any", prompt="b", stream=stream)
            assert told.value.code == "queue_full"
            assert told.value.response.headers["retry-after"] == "5"


async def test_a_stream_shows_life_while_it_waits_and_tells_errors_in_it(
    start_gateway: Callable[..., GatewayProcess],
    lone_queue: Queue,
    waiting_in: Callable[[Queue], Any],
    caller: httpx.AsyncClient,
) -> None:
    gateway = start_gateway(keep_alive_s=0.05)
    async with caller.stream("POST", gateway.url + PATH, json=BODY | {"stream": True}) as answer:
        lines = answer.aiter_lines()
        assert [await anext(lines) for _ in range(3)] == [": waiting", "", ": waiting"]
        assert answer.headers["content-type"].startswith("text/event-stream")
        name = await the_one_waiting(lone_queue, waiting_in)
        cancelled = {"id": name, "status": "cancelled", "error": {"code": "cancelled", "message": "by somebody"}}
        await lone_queue.cancel(name, result=json.dumps(cancelled).encode(), ttl_s=60)
        rest = [line async for line in lines if line.startswith("data:")]
    assert json.loads(rest[0][5:])["error"]["code"] == "cancelled"
    assert rest[1] == "data: [DONE]"


async def test_a_stop_waits_for_those_who_wait(
    start_gateway: Callable[..., GatewayProcess],
    start_worker: Callable[..., WorkerProcess],
    lone_queue: Queue,
    waiting_in: Callable[[Queue], Any],
    caller: httpx.AsyncClient,
) -> None:
    gateway = start_gateway(drain_s=60)
    call = asyncio.create_task(caller.post(gateway.url + PATH, json=BODY))
    await the_one_waiting(lone_queue, waiting_in)
    gateway.signal(signal.SIGTERM)
    start_worker()
    assert (await call).status_code == 200
    assert gateway.ended() == 0


async def test_after_drain_s_callers_are_sent_off_and_requests_go_on(
    start_gateway: Callable[..., GatewayProcess],
    lone_queue: Queue,
    waiting_in: Callable[[Queue], Any],
    caller: httpx.AsyncClient,
) -> None:
    gateway = start_gateway(drain_s=0)
    call = asyncio.create_task(caller.post(gateway.url + PATH, json=BODY))
    name = await the_one_waiting(lone_queue, waiting_in)
    gateway.signal(signal.SIGTERM)
    sent_off = await call
    assert sent_off.status_code == 503
    assert sent_off.json()["error"]["code"] == "stopping"
    assert gateway.ended() == 0
    assert (await lone_queue.status([name]))[0].state == "waiting"
    assert gateway.lines(f"still on its way: request {name}")


async def test_readiness_is_the_truth(
    any_server: Server,
    start_gateway: Callable[..., GatewayProcess],
    start_worker: Callable[..., WorkerProcess],
    caller: httpx.AsyncClient,
) -> None:
    gateway = start_gateway()

    async def health() -> tuple[int, str, int]:
        told = await caller.get(f"{gateway.url}/health/ready")
        [queue] = told.json()["queues"]
        return told.status_code, queue["redis"], queue["workers_ready"]

    assert await health() == (503, "ok", 0)
    await start_worker().ready()

    async def is_ready() -> bool:
        return await health() == (200, "ok", 1)

    await wait_until(is_ready, what="the worker is told of")
    any_server.pause()
    assert await health() == (503, "unreachable", 0)
    assert (await caller.get(f"{gateway.url}/health/live")).status_code == 200
    any_server.resume()
    await wait_until(is_ready, what="Redis is told of again")
