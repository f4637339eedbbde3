"""Files and batches through the official client."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai as errors
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types import Batch
from tests.gateway.gateway_process import GatewayProcess
from tests.waiting import wait_until
from tests.worker_process import WorkerProcess

from busload_shared.queue import Queue


def line(name: str, *, url: str = "/v1/chat/completions", **body: Any) -> str:
    chat = {"model": "fake", "messages": [{"role": "user", "content": name}], "max_tokens": 4}
    return json.dumps({"custom_id": name, "method": "POST", "url": url, "body": chat | body})


def upload(client: OpenAI, lines: list[str]) -> str:
    return client.files.create(file=("in.jsonl", "\n".join(lines).encode()), purpose="batch").id


def start(client: OpenAI, lines: list[str], **named: Any) -> Batch:
    asked: dict[str, Any] = {"endpoint": "/v1/chat/completions", "completion_window": "24h"} | named
    return client.batches.create(input_file_id=upload(client, lines), **asked)


async def over(client: OpenAI, batch_id: str) -> Batch:
    async def ended() -> Batch | None:
        batch = client.batches.retrieve(batch_id)
        return batch if batch.status in ("completed", "failed", "cancelled", "expired") else None

    batch = await wait_until(ended, timeout_s=60, what="the batch is over")
    assert batch is not None
    return batch


def records(client: OpenAI, file_id: str | None) -> dict[str, Any]:
    assert file_id is not None
    parsed = [json.loads(text) for text in client.files.content(file_id).text.splitlines()]
    return {record["custom_id"]: record for record in parsed}


async def test_a_batch_runs_to_its_end_and_counts_add_up(openai: OpenAI) -> None:
    bad = ["no json", line("wrong", temperature="hot"), line("elsewhere", url="/v1/completions", messages=None)]
    good = [line(f"r{i}") for i in range(40)]
    began = start(openai, [*good, *bad], metadata={"of": "test"})
    assert began.status in ("validating", "in_progress")
    batch = await over(openai, began.id)
    assert batch.status == "completed"
    assert (batch.request_counts.total, batch.request_counts.completed, batch.request_counts.failed) == (43, 40, 3)
    assert batch.metadata == {"of": "test"}
    assert batch.completed_at is not None
    answers = records(openai, batch.output_file_id)
    assert len(answers) == 40
    body = answers["r7"]["response"]["body"]
    assert body["choices"][0]["message"]["content"].startswith("echo:")
    assert body["model"] == "fake"
    problems = records(openai, batch.error_file_id)
    assert set(problems) == {None, "wrong", "elsewhere"}
    assert openai.files.retrieve(batch.output_file_id).purpose == "batch_output"


async def test_a_batch_can_be_cancelled(
    tmp_path: Path, start_gateway: Callable[..., GatewayProcess], lone_queue: Queue
) -> None:
    gateway = start_gateway(files_folder=tmp_path, batch_in_flight=4)
    with OpenAI(base_url=f"{gateway.url}/v1", api_key="none") as client:
        batch = start(client, [line(f"r{i}") for i in range(9)])

        async def waiting() -> bool:
            return (await lone_queue.info()).waiting == 4

        await wait_until(waiting, what="the first lines wait")
        assert client.batches.cancel(batch.id).status == "cancelling"
        ended = await over(client, batch.id)
        assert (ended.status, ended.output_file_id) == ("cancelled", None)
        problems = records(client, ended.error_file_id).values()
        assert [record["response"]["body"]["error"]["code"] for record in problems] == ["cancelled"] * 4
        with pytest.raises(errors.ConflictError):
            client.batches.cancel(batch.id)


async def test_files_are_listed_read_and_deleted(async_openai: AsyncOpenAI) -> None:
    made = await async_openai.files.create(file=io.BytesIO(line("a").encode()), purpose="batch")
    assert made.bytes == len(line("a"))
    assert made.id in [one.id async for one in await async_openai.files.list(limit=1)]
    assert (await async_openai.files.content(made.id)).text == line("a")
    assert (await async_openai.files.delete(made.id)).deleted
    with pytest.raises(errors.NotFoundError):
        await async_openai.files.retrieve(made.id)
    with pytest.raises(errors.NotFoundError):
        await async_openai.files.retrieve("..%2f..%2fetc%2fpasswd")
    with pytest.raises(errors.BadRequestError) as told:
        await async_openai.files.create(file=b"x", purpose="fine-tune")
    assert told.value.param == "purpose"


def test_a_batch_needs_a_file_that_is_there(openai: OpenAI) -> None:
    with pytest.raises(errors.NotFoundError):
        openai.batches.create(input_file_id="file-1", endpoint="/v1/completions", completion_window="24h")
    with pytest.raises(errors.BadRequestError) as told:
        start(openai, [line("a")], endpoint="/v1/embeddings")
    assert told.value.param == "endpoint"
    assert isinstance(openai.batches.list().data, list)


async def test_a_batch_goes_on_after_the_gateway_was_killed(
    tmp_path: Path,
    start_gateway: Callable[..., GatewayProcess],
    start_worker: Callable[..., WorkerProcess],
    lone_queue: Queue,
) -> None:
    gateway = start_gateway(files_folder=tmp_path / "files", batch_in_flight=10)
    with OpenAI(base_url=f"{gateway.url}/v1", api_key="none") as client:
        batch = start(client, [line(f"r{i}") for i in range(60)])

        async def waiting() -> bool:
            return (await lone_queue.info()).waiting == 10

        await wait_until(waiting, what="the first lines wait")
    gateway.close()
    start_worker()
    gateway = start_gateway(files_folder=tmp_path / "files", batch_in_flight=10)
    with OpenAI(base_url=f"{gateway.url}/v1", api_key="none") as client:
        ended = await over(client, batch.id)
        assert (ended.status, ended.request_counts.completed) == ("completed", 60)
        assert len(records(client, ended.output_file_id)) == 60
    assert (await lone_queue.info()).counters["succeeded"] == 60, "none ran twice"


def test_two_gateways_do_not_share_a_folder(
    tmp_path: Path, any_redis_url: str, start_gateway: Callable[..., GatewayProcess]
) -> None:
    start_gateway(files_folder=tmp_path)
    second = GatewayProcess(any_redis_url, files_folder=tmp_path)
    try:
        assert second.ended() == 2
        assert "another gateway works there" in second.log()
    finally:
        second.close()
