"""`busload submit`, `result`, `wait`, `status`, `cancel`, as a user types them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.queue.steps import board, deliver
from tests.worker_process import WorkerProcess

from busload.cli import bench, dead, queue, requests, submit, top
from busload.cli.shown import harmless
from busload_shared.queue import Queue

from .conftest import CommandLine


async def _answer_all(queue: Queue) -> None:
    await deliver(queue, await board(queue, "b1"))


def test_submit_prints_the_id_and_nothing_else(busload: CommandLine) -> None:
    ended = busload("submit", "Hello", "--id", "a", "--max-tokens", "4")
    assert (ended.code, ended.out, ended.err) == (0, "a\n", "")
    assert busload("status", "a").out == "a waiting\n"


def test_every_way_of_asking_is_answered_by_a_real_worker(
    busload: CommandLine, start_worker: Callable[..., WorkerProcess]
) -> None:
    start_worker()
    ended = busload("submit", "Hello", "--id", "a", "--max-tokens", "4", "--wait", "--timeout-s", "60")
    assert ended.code == 0, ended.err
    assert ended.out.startswith("echo:a:")
    assert "succeeded, 4 tokens" in ended.err
    assert busload("result", "a", "--json").json[0]["usage"]["completion_tokens"] == 4
    lines = "\n".join(json.dumps({"id": name, "prompt": "Hello"}) for name in "bc")
    sent = busload("submit", "--file", "-", "--max-tokens", "3", stdin=lines)
    assert sent.out.split() == ["b", "c"]
    for poll in ([], ["--poll"]):
        waited = busload("wait", "-", "--json", "--timeout-s", "60", *poll, stdin=sent.out)
        assert waited.code == 0, waited.err
        assert {each["id"]: each["usage"]["completion_tokens"] for each in waited.json} == {"b": 3, "c": 3}
    chat = busload("submit", "Hi", "--system", "Be brief", "--wait", "--json", "--timeout-s", "60")
    assert chat.json[0]["status"] == "succeeded"


def test_all_fields_reach_the_request_as_they_were_typed(busload: CommandLine, tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "object"}', encoding="utf-8")
    options = (
        "--min-tokens=1 --temperature=0.5 --top-p=0.9 --top-k=5 --min-p=0.1 --seed=7 --stop=. --stop=! --n=2 "
        "--presence-penalty=0.1 --frequency-penalty=0.2 --repetition-penalty=1.1 --logprobs=2 --ignore-eos "
        f"--return-token-ids --json-schema=@{schema} --priority=3 --ttl-s=60 --route=r"
    ).split()
    ended = busload("submit", "Hello", "--metadata", '{"customer": 17}', *options)
    assert ended.code == 0, ended.err

    async def first(queue: Queue) -> bytes:
        return (await board(queue, "b1")).seats[0].element.payload

    asked = json.loads(busload.on_queue(first))
    assert asked.pop("id") == ended.out.strip()
    assert asked == {
        "prompt": "Hello", "min_tokens": 1, "temperature": 0.5, "top_p": 0.9, "top_k": 5, "min_p": 0.1, "seed": 7,
        "stop": [".", "!"], "n": 2, "presence_penalty": 0.1, "frequency_penalty": 0.2, "repetition_penalty": 1.1,
        "logprobs": 2, "ignore_eos": True, "return_token_ids": True, "json_schema": {"type": "object"}, "priority": 3,
        "ttl_s": 60.0, "route": "r", "metadata": {"customer": 17},
    }  # fmt: skip


def test_zero_is_a_value_and_no_absence(busload: CommandLine) -> None:
    busload("submit", "Hello", "--temperature", "0", "--logprobs", "0")

    async def first(queue: Queue) -> bytes:
        return (await board(queue, "b1")).seats[0].element.payload

    asked = json.loads(busload.on_queue(first))
    assert (asked["temperature"], asked["logprobs"]) == (0, 0)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ([], "give a prompt"),
        (["Hello", "--top-p", "2"], "top_p"),
        (["Hello", "--metadata", "{"], "--metadata is no JSON"),
        (["Hello", "--json-schema", "@/no/such/file"], "/no/such/file"),
        (["--file", "/no/such/file"], "/no/such/file"),
        (["Hello", "--queue", "a b"], "queue name"),
        (["Hello", "--redis-url", "http://secret@x"], "redis_url"),
        (["Hello", "--no-such-option"], "--no-such-option"),
    ],
)
def test_what_is_asked_wrongly_ends_with_2_and_says_what_it_is(
    busload: CommandLine, words: list[str], named: str
) -> None:
    ended = busload("submit", *words)
    assert (ended.code, ended.out) == (2, "")
    assert named in ended.err
    assert "secret" not in ended.err


def test_a_known_id_is_not_enqueued_twice_and_it_is_told(busload: CommandLine) -> None:
    busload("submit", "Hello", "--id", "a")
    again = busload("submit", "Hello", "--id", "a", "--json")
    assert (again.code, again.json) == (0, [{"id": "a", "state": "waiting"}])
    assert "known already" in again.err


def test_a_full_queue_ends_with_4(busload: CommandLine) -> None:
    busload.enqueue("a", "b")
    ended = busload("submit", "Hello", "--max-queue-length", "2")
    assert (ended.code, ended.out) == (4, "")
    assert "2 requests wait and the limit is 2" in ended.err


def test_without_redis_every_command_ends_with_3_and_shows_no_password(
    busload: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (submit, requests, bench, queue, top, dead):
        monkeypatch.setattr(module, "PATIENCE_S", 0.0)
    busload.redis_url = "redis://me:pa55word@127.0.0.1:1/0"
    asking = (["submit", "x"], ["result", "a"], ["wait", "a"], ["status", "a"], ["cancel", "a"], ["bench"])
    for words in (*asking, ["queue"], ["top", "--once"], ["dead", "list"]):
        ended = busload(*words)
        assert (ended.code, ended.out) == (3, ""), words
        assert "see that it runs and can be reached" in ended.err
        assert "pa55word" not in ended.err


def test_a_result_that_is_not_there_says_why(busload: CommandLine) -> None:
    busload.enqueue("a")
    waiting = busload("result", "a")
    assert (waiting.code, waiting.out) == (1, "")
    assert "it is waiting" in waiting.err
    unknown = busload("result", "nobody", "--json")
    assert (unknown.code, unknown.out) == (1, "")
    assert "nobody enqueued this id" in unknown.err


def test_a_failure_is_bad_news(busload: CommandLine) -> None:
    busload.bury("a")
    ended = busload("result", "a")
    assert (ended.code, ended.out) == (1, "")
    assert "poison: died alone twice" in ended.err
    as_json = busload("wait", "a", "--json")
    assert as_json.code == 1
    assert as_json.json[0]["error"]["code"] == "poison"


def test_waiting_prints_what_came_and_then_what_did_not(busload: CommandLine) -> None:
    busload.enqueue("a")
    busload.on_queue(_answer_all)
    busload.enqueue("b")
    for poll in ([], ["--poll"]):
        ended = busload("wait", "a", "b", "--timeout-s", "0.1", "--json", *poll)
        assert ended.code == 1
        assert [each["id"] for each in ended.json] == ["a"]
        assert "no result within 0.1 s" in ended.err
        assert "b" in ended.err


def test_where_requests_are(busload: CommandLine) -> None:
    busload.enqueue("done")
    busload.on_queue(_answer_all)
    busload.enqueue("waits")
    ended = busload("status", "done", "waits", "nobody", "--json")
    assert ended.code == 1
    assert ended.json == [
        {"id": "done", "state": "answered", "status": "succeeded"},
        {"id": "waits", "state": "waiting"},
        {"id": "nobody", "state": "unknown"},
    ]
    assert busload("status", "done", "waits").code == 0


def test_cancelling_tells_what_became_of_each(busload: CommandLine) -> None:
    busload.enqueue("a")
    assert busload("cancel", "a").out == "a cancelled\n"
    again = busload("cancel", "a", "nobody", "--json")
    assert again.code == 1
    assert again.json == [{"id": "a", "state": "answered"}, {"id": "nobody", "state": "unknown"}]


def test_an_answer_cannot_steer_the_terminal() -> None:
    assert harmless("a\x1b[2Jb\nc\td\r") == "a\ufffd[2Jb\nc\td\ufffd"
