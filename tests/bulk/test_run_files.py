"""`busload run`: formats in and out, bad lines, counts and exit codes."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from openai.types import Completion
from openai.types.chat import ChatCompletion
from tests.bulk.conftest import QUEUE, Command, records, write_lines
from tests.waiting import wait_until

from busload_shared.connection import open_redis
from busload_shared.keys import Keys

CHAT = {"model": "m", "messages": [{"role": "user", "content": "Why?"}], "max_tokens": 3}


def line(custom_id: str, url: str = "/v1/chat/completions", **body: object) -> dict[str, object]:
    return {"custom_id": custom_id, "method": "POST", "url": url, "body": CHAT | body}


@pytest.mark.usefixtures("worker")
def test_an_openai_batch_file_gives_openai_output_and_error_files(busload: Command, tmp_path: Path) -> None:
    completion = line("text", "/v1/completions")
    completion["body"] = {"model": "m", "prompt": "Once", "max_tokens": 2}
    bad = [line("tool", tools=[{"type": "function"}]), line("chat 1"), line("url", "/v1/embeddings"), "[]", "{"]
    late = line("late", deadline=1.0)
    write_lines(tmp_path / "in.jsonl", line("chat 1"), completion, *bad, late)

    done = busload("run", "in.jsonl", "-o", "out.jsonl", "--errors", "bad.jsonl", "--json")

    assert done.returncode == 1, done.stderr
    counts = json.loads(done.stdout)
    assert (counts["read"], counts["succeeded"], counts["failed"], counts["invalid"]) == (8, 2, 1, 5)
    answers = {one["custom_id"]: one for one in records(tmp_path / "out.jsonl")}
    for name, kind in (("chat 1", ChatCompletion), ("text", Completion)):
        answer = answers[name]
        assert set(answer) == {"id", "custom_id", "response", "error"}
        assert answer["error"] is None
        assert answer["response"]["status_code"] == 200
        assert kind.model_validate(answer["response"]["body"]).usage.completion_tokens in (2, 3)  # type: ignore[union-attr]
    errors = records(tmp_path / "bad.jsonl")
    told = {one["error"]["line"]: one["error"]["message"] for one in errors if one["error"]}
    assert sorted(told) == [3, 4, 5, 6, 7]
    assert told[3].startswith("tools: not supported")
    assert told[4].startswith("custom_id: an earlier line has the same")
    assert told[7].startswith("not JSON")
    (failed,) = [one for one in errors if one["response"]]
    assert failed["custom_id"] == "late"
    assert failed["response"]["status_code"] >= 400


@pytest.mark.usefixtures("worker")
def test_csv_in_gives_csv_out_with_what_was_in_metadata(busload: Command, tmp_path: Path) -> None:
    rows = 'prompt,max_tokens,stop,metadata.who\n"a, ""b""\nc",2,"[""x""]",Ann\nsecond,,,\nthird,many,,\nfourth,1\n'
    (tmp_path / "in.csv").write_text(rows, encoding="utf-8-sig")

    done = busload("run", "in.csv", "-o", "out.csv")

    assert done.returncode == 1, done.stderr
    assert "read 4 = 2 succeeded + 0 failed + 2 invalid" in done.stdout
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        good = {int(row["line"]): row for row in csv.DictReader(file)}
    assert set(good) == {2, 4}
    assert good[2]["completion_tokens"] == "2"
    assert json.loads(good[2]["metadata"]) == {"who": "Ann"}
    assert good[2]["text"].startswith("echo:")
    with (tmp_path / "out.errors.csv").open(newline="", encoding="utf-8") as file:
        bad = {int(row["line"]): row["error_message"] for row in csv.DictReader(file)}
    assert bad[5].startswith("max_tokens: ")
    assert bad[6] == "the row has 2 cells and the header 4"


@pytest.mark.usefixtures("worker")
def test_stdin_to_stdout_is_a_pipe(busload: Command) -> None:
    done = busload("run", "-", "-o", "-", stdin='\n{"prompt": "a", "max_tokens": 1}\n{"prompt": 1}\n')
    assert done.returncode == 1
    by_line = {one["line"]: one for one in map(json.loads, done.stdout.splitlines())}
    assert by_line[2]["status"] == "succeeded"
    assert by_line[3]["status"] == "invalid"
    assert "read 2 = 1 succeeded + 0 failed + 1 invalid" in done.stderr
    assert "--job bulk-" in done.stderr


@pytest.mark.parametrize(
    ("lines", "words", "said"),
    [
        ("text,more\n1,2\n", (), "names a column prompt"),
        ("prompt,label\n1,2\n", (), "call it metadata.label"),
        ('{"prompt": "a"}\n', ("--errors", "in.txt"), "three different files"),
        ('{"prompt": "a"}\n', ("--job", "a b"), "job 'a b': give 1 to 128"),
        ('{"prompt": "a"}\n', ("--output", "no/such/folder"), "No such file"),
    ],
)
def test_what_was_asked_wrongly_is_said_and_exits_with_2(
    busload: Command, tmp_path: Path, lines: str, words: tuple[str, ...], said: str
) -> None:
    (tmp_path / "in.txt").write_text(lines, encoding="utf-8")
    done = busload("run", "in.txt", "-o", "out.jsonl", *words)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr


@pytest.mark.usefixtures("worker")
def test_a_changed_line_and_a_strangers_file_are_refused(busload: Command, tmp_path: Path) -> None:
    write_lines(tmp_path / "in.jsonl", {"prompt": "a", "max_tokens": 1})
    assert busload("run", "in.jsonl", "-o", "out.jsonl").returncode == 0
    stranger = busload("run", "in.jsonl", "-o", "out.jsonl", "--job", "another")
    assert stranger.returncode == 2
    assert "this job has not written" in stranger.stderr
    write_lines(tmp_path / "in.jsonl", {"prompt": "b", "max_tokens": 1})
    changed = busload("run", "in.jsonl", "-o", "out.jsonl")
    assert changed.returncode == 2
    assert "line 1 of the input was another" in changed.stderr
    assert len(records(tmp_path / "out.jsonl")) == 1


@pytest.mark.usefixtures("worker")
async def test_results_that_expired_before_they_were_written_are_run_again_and_told(
    busload: Command, any_redis_url: str, tmp_path: Path
) -> None:
    write_lines(tmp_path / "in.jsonl", *({"prompt": f"p{i}", "max_tokens": 1} for i in range(6)))
    assert busload("run", "in.jsonl", "-o", "out.jsonl").returncode == 0
    written = (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "out.jsonl").write_text("".join(written[:3]), encoding="utf-8")
    lost = json.loads(written[4])["id"]
    redis = open_redis(any_redis_url)
    await redis.delete(Keys(QUEUE).result(lost))
    await redis.aclose()

    done = busload("run", "in.jsonl", "-o", "out.jsonl", "--json")

    assert json.loads(done.stdout) | {"job": "", "read": 6, "skipped": 3, "succeeded": 3, "run_again": 1} == json.loads(
        done.stdout
    ) | {"job": ""}
    assert sorted(one["line"] for one in records(tmp_path / "out.jsonl")) == [1, 2, 3, 4, 5, 6]


def test_a_redis_that_is_away_is_told_with_how_to_go_on(busload: Command, tmp_path: Path) -> None:
    write_lines(tmp_path / "in.jsonl", {"prompt": "a"}, "bad")
    words = ("run", "in.jsonl", "-o", "out.jsonl", "--patience-s", "0.1")
    done = busload(*words, redis_url="redis://127.0.0.1:1/0")
    assert done.returncode == 3, done.stderr
    assert "the same command goes on" in done.stderr


async def test_ctrl_c_waits_for_nothing_says_how_to_go_on_and_exits_with_130(
    start_busload: Callable[..., subprocess.Popen[str]], any_redis_url: str, tmp_path: Path
) -> None:
    """No worker is up, so nothing would ever come."""
    write_lines(tmp_path / "in.jsonl", *({"prompt": f"p{i}"} for i in range(10)))
    process = start_busload("run", "in.jsonl", "-o", "out.jsonl")
    redis = open_redis(any_redis_url)

    async def submitted() -> bool:
        return await redis.llen(QUEUE) == 10

    await wait_until(submitted, timeout_s=60, what="the lines wait in the queue")
    await redis.aclose()
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the same command goes on" in told
