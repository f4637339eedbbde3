"""The whole way once: OpenAI's client, the gateway, Redis, a worker, the real model."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
from openai import BadRequestError, OpenAI
from tests.gateway.gateway_process import GatewayProcess
from tests.redis_servers import Servers
from tests.worker_process import WorkerProcess

from busload_worker.smollm import smollm2_folder

pytestmark = pytest.mark.engine

START_S = 300.0
QUESTION = [{"role": "user", "content": "Name the capital of France."}]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenAI]:
    servers = Servers()
    version = servers.first()
    assert version is not None, "the engine's tests need a redis-server"
    url = servers.get(version).url
    model = {"engine": "vllm", "model": smollm2_folder(), "vllm_max_model_len": 256, "max_batch_size": 4}
    worker = WorkerProcess(url, **model)
    gateway = GatewayProcess(url, files_folder=tmp_path_factory.mktemp("files"), model_names="smollm2")
    try:
        _wait_for(worker)
        with OpenAI(base_url=f"{gateway.listening().url}/v1", api_key="none", max_retries=0, timeout=120) as client:
            yield client
    finally:
        gateway.close()
        worker.close()
        servers.remove()


def _wait_for(worker: WorkerProcess) -> None:
    give_up = time.monotonic() + START_S
    while not worker.ready_file.exists():
        assert worker.process.poll() is None, worker.log()
        assert time.monotonic() < give_up, "the worker did not get ready"
        time.sleep(0.1)


def test_a_chat_streamed_or_not_has_the_same_answer(client: OpenAI) -> None:
    asked = {"model": "smollm2", "messages": QUESTION, "max_tokens": 16, "temperature": 0}
    answer = client.chat.completions.create(**asked, logprobs=True, top_logprobs=2)
    choice = answer.choices[0]
    assert "Paris" in choice.message.content
    assert len(choice.logprobs.content) == answer.usage.completion_tokens
    assert all(len(token.top_logprobs) == 2 for token in choice.logprobs.content)
    chunks = list(client.chat.completions.create(**asked, stream=True))
    assert chunks[0].choices[0].delta.content == choice.message.content


def test_structured_output_follows_its_schema(client: OpenAI) -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}},
        "required": ["city"],
        "additionalProperties": False,
    }
    shape = {"type": "json_schema", "json_schema": {"name": "place", "schema": schema, "strict": True}}
    answer = client.chat.completions.create(
        model="smollm2", messages=QUESTION, max_tokens=64, temperature=0, response_format=shape
    )
    assert set(json.loads(answer.choices[0].message.content)) == {"city"}


def test_a_prompt_that_is_too_long_is_a_bad_request(client: OpenAI) -> None:
    with pytest.raises(BadRequestError) as told:
        client.completions.create(model="smollm2", prompt="1" * 1000, max_tokens=4)
    assert told.value.code == "context_length_exceeded"


def test_a_batch_is_answered(client: OpenAI) -> None:
    body = {"model": "smollm2", "messages": QUESTION, "max_tokens": 16, "temperature": 0}
    lines = [
        json.dumps({"custom_id": f"r{i}", "method": "POST", "url": "/v1/chat/completions", "body": body})
        for i in range(6)
    ]
    source = client.files.create(file=("in.jsonl", "\n".join(lines).encode()), purpose="batch")
    batch = client.batches.create(input_file_id=source.id, endpoint="/v1/chat/completions", completion_window="24h")
    give_up = time.monotonic() + 120
    while batch.status not in ("completed", "failed") and time.monotonic() < give_up:
        time.sleep(0.1)
        batch = client.batches.retrieve(batch.id)
    assert (batch.status, batch.request_counts.completed) == ("completed", 6)
    answers = [json.loads(line) for line in client.files.content(batch.output_file_id).text.splitlines()]
    assert all("Paris" in one["response"]["body"]["choices"][0]["message"]["content"] for one in answers)
