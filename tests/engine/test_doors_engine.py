"""Every door but the gateway on the real model, end to end: one Redis, one worker, and the same answer through each.

The model is asked greedily, and for what it is sure of, so that the text does not depend on who else is in the batch.
"""

from __future__ import annotations

import asyncio
import csv
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import chain
from tests.bulk.conftest import QUEUE, Command, environment, records, write_lines
from tests.celery_door.conftest import Shop
from tests.redis_servers import Server, Servers
from tests.worker_process import WorkerProcess

from busload import Client, Result
from busload_worker.smollm import smollm2_folder

pytestmark = pytest.mark.engine

START_S = 300.0
PATIENCE_S = 60.0
PROMPT = "The capital of France is"
GREEDY: dict[str, Any] = {"max_tokens": 6, "temperature": 0}
QUESTION = [{"role": "user", "content": "Name the capital of France."}]
TRACE_ID, PARENT_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


class Depot:
    """What all tests here share; the Celery worker's slow start is over before the model's is."""

    def __init__(self, server: Server) -> None:
        self.url = server.url
        model = {"engine": "vllm", "model": smollm2_folder(), "vllm_max_model_len": 256, "max_batch_size": 8}
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("OTEL_TRACES_EXPORTER", "console")
            patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
            self.worker = WorkerProcess(self.url, **model)
        self.shop = Shop(server)

    def start(self) -> None:
        asyncio.run(self.shop.celery())
        until(self.worker.ready_file.exists, "the worker is ready", timeout_s=START_S)

    def close(self) -> None:
        print(self.worker.log()[-6000:])  # shown when a test failed
        self.shop.close()
        self.worker.close()


def until(true: Callable[[], Any], what: str, *, timeout_s: float = PATIENCE_S) -> Any:
    give_up = time.monotonic() + timeout_s
    while not (answer := true()):
        assert time.monotonic() < give_up, f"not within {timeout_s} s: {what}"
        time.sleep(0.02)
    return answer


@pytest.fixture(scope="module")
def depot() -> Iterator[Depot]:
    servers = Servers()
    version = servers.first()
    assert version is not None, "the engine's tests need a redis-server"
    depot = Depot(servers.get(version))
    try:
        depot.start()
        yield depot
    finally:
        depot.close()
        servers.remove()


@pytest.fixture(scope="module")
def client(depot: Depot) -> Iterator[Client]:
    with Client(depot.url) as client:
        yield client


@pytest.fixture(scope="module")
def answer(client: Client) -> str:
    """What the model says to PROMPT."""
    return good(client.generate(prompt=PROMPT, **GREEDY, timeout_s=PATIENCE_S))


@pytest.fixture
def busload(depot: Depot, tmp_path: Path) -> Command:
    """The command as a process of its own, in an empty folder."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "busload", *words]
        options: dict[str, Any] = {"text": True, "capture_output": True, "timeout": 120, "check": False}
        return subprocess.run(command, cwd=tmp_path, env=environment(depot.url), **options)

    return run


def good(result: Result) -> str:
    """The text of a whole and sensible answer to PROMPT, whichever door it came through."""
    assert result.status == "succeeded", result
    (output,) = result.outputs
    assert "Paris" in output.text
    assert output.finish_reason == "length"
    assert result.usage is not None
    assert (result.usage.prompt_tokens, result.usage.completion_tokens) == (5, GREEDY["max_tokens"])
    assert result.timing is not None
    assert result.timing.proof is not None
    assert result.timing.proof.holds
    return output.text


def test_the_command_line_asks_waits_and_looks(busload: Command, answer: str) -> None:
    asked = busload("submit", PROMPT, "--id", "typed", "--max-tokens", "6", "--temperature", "0", "--wait", "--json")
    assert asked.returncode == 0, asked.stderr
    assert good(Result.model_validate_json(asked.stdout)) == answer
    looked = busload("queue", "--json")
    assert looked.returncode == 0, looked.stderr
    queue = json.loads(looked.stdout)
    assert (queue["waiting"], queue["inflight"], queue["dead"]) == (0, 0, 0)
    assert [worker["state"] for worker in queue["workers"]] == ["ready"]
    told = busload("status", "typed", "nobody")
    assert (told.returncode, told.stdout) == (1, "typed answered succeeded\nnobody unknown\n")


def test_a_batch_file_is_answered_line_by_line(busload: Command, answer: str, tmp_path: Path) -> None:
    def line(name: str, path: str, **body: Any) -> dict[str, Any]:
        return {"custom_id": name, "method": "POST", "url": f"/v1/{path}", "body": {"model": "m", **GREEDY, **body}}

    chats = [line(f"chat {i}", "chat/completions", messages=QUESTION, max_tokens=12) for i in range(6)]
    texts = [line(f"text {i}", "completions", prompt=PROMPT) for i in range(5)]
    bad = line("bad", "completions", prompt=PROMPT, temperature="warm")
    write_lines(tmp_path / "in.jsonl", *chats[:3], bad, *texts, *chats[3:])

    done = busload("run", "in.jsonl", "-o", "out.jsonl", "--json")

    assert done.returncode == 1, done.stderr
    counts = json.loads(done.stdout)
    assert (counts["read"], counts["succeeded"], counts["failed"], counts["invalid"]) == (12, 11, 0, 1)
    answers = {one["custom_id"]: one["response"]["body"] for one in records(tmp_path / "out.jsonl")}
    assert set(answers) == {each["custom_id"] for each in (*chats, *texts)}
    for name, body in answers.items():
        (choice,) = body["choices"]
        assert body["usage"]["completion_tokens"] > 0
        assert choice["finish_reason"] in ("length", "stop")
        if name.startswith("text"):
            assert choice["text"] == answer
        else:
            assert "Paris" in choice["message"]["content"]
    (error,) = records(tmp_path / "out.errors.jsonl")
    assert (error["custom_id"], error["error"]["line"]) == ("bad", 4)
    assert "temperature" in error["error"]["message"]


def test_a_program_runs_an_iterable(client: Client, answer: str) -> None:
    outcomes = list(client.run({"prompt": PROMPT, **GREEDY} for _ in range(6)))
    assert sorted(outcome.position for outcome in outcomes) == list(range(6))
    assert [good(outcome.result) for outcome in outcomes if outcome.result] == [answer] * 6


def test_an_analyst_gets_the_same_as_csv_and_as_a_frame(
    busload: Command, client: Client, answer: str, tmp_path: Path
) -> None:
    ids = ["july-1", "july-2"]
    client.submit_many({"id": name, "prompt": PROMPT, **GREEDY} for name in ids)
    assert {result.id for result in client.as_completed(ids, timeout_s=PATIENCE_S)} == set(ids)

    done = busload("results", *ids, "never", "-o", "july.csv")

    assert "3 ids: 2 answered, 1 unknown" in done.stderr
    with (tmp_path / "july.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    frame = client.results_frame([*ids, "never"])
    columns = ["id", "state", "status", "text", "finish_reason", "prompt_tokens", "completion_tokens"]
    answered = [[name, "answered", "succeeded", answer, "length", 5, 6] for name in ids]
    assert frame[columns].head(2).to_numpy().tolist() == answered
    assert [[row[name] for name in columns] for row in rows[:2]] == [[str(cell) for cell in row] for row in answered]
    assert frame.state[2] == rows[2]["state"] == "unknown"


def test_celery_tasks_are_answered_alone_and_in_a_chain(depot: Depot, client: Client, answer: str) -> None:
    generate = depot.shop.tasks.generate
    alone = generate.delay(PROMPT, **GREEDY)
    chained = chain(generate.s(PROMPT, **GREEDY), generate.s(**GREEDY))()
    assert alone.get(timeout=PATIENCE_S) == chained.parent.get(timeout=PATIENCE_S) == answer
    last = client.generate(prompt=answer, **GREEDY, timeout_s=PATIENCE_S)
    assert chained.get(timeout=PATIENCE_S) == last.text != ""
    ridden = client.result(f"celery:{alone.id}:0")
    assert ridden is not None
    assert good(ridden) == answer


def test_plain_redis_is_enough(depot: Depot, answer: str) -> None:
    redis = depot.shop.queue
    redis.lpush(QUEUE, json.dumps({"id": "42", "prompt": PROMPT, **GREEDY}))
    body = until(lambda: redis.get(f"{{{QUEUE}}}:result:42"), "the result is there")
    assert good(Result.model_validate_json(body)) == answer
    assert redis.ttl(f"{{{QUEUE}}}:result:42") > 0


def test_the_worker_s_spans_hang_under_the_caller_s(depot: Depot, client: Client, answer: str) -> None:
    trace = {"traceparent": f"00-{TRACE_ID}-{PARENT_ID}-01"}
    result = client.generate(id="traced", prompt=PROMPT, trace=trace, **GREEDY, timeout_s=PATIENCE_S)
    assert good(result) == answer

    def exported() -> dict[str, Any]:
        texts = re.findall(r"^\{\n.*?^\}", depot.worker.log(), re.MULTILINE | re.DOTALL)
        return {span["name"]: span for span in map(json.loads, texts)}

    until(lambda: len(exported()) == 4, "the batch and the request's three spans are exported")
    spans = exported()
    assert {span["context"]["trace_id"] for span in spans.values()} == {f"0x{TRACE_ID}"}
    assert result.batch is not None
    assert spans["busload batch"]["attributes"]["busload.batch.id"] == result.batch.id
    assert [link["context"]["span_id"] for link in spans["busload batch"]["links"]] == [f"0x{PARENT_ID}"]
    run = spans["busload run"]["attributes"]
    assert (run["gen_ai.usage.output_tokens"], run["gen_ai.response.finish_reasons"]) == (6, ["length"])
