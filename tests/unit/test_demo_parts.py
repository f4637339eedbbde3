"""The demo's parts that need no process: what it asks, when, and how it shows and sums up what came back."""

from __future__ import annotations

import io
from itertools import pairwise
from pathlib import Path

import pytest
from rich.console import Console

from busload.demo.arrivals import arrival_times
from busload.demo.closing import show_summary
from busload.demo.live import LiveView
from busload.demo.producer import pick_sample
from busload.demo.questions import demo_requests, read_requests, shown_question
from busload.demo.summary import batches_of, failures, one_by_one, percentile, summarize
from busload.demo.view import Board, PlainView, View, printable, seconds
from busload_shared.errors import SettingsInvalid
from busload_shared.replies import QueueInfo, WorkerInfo
from busload_shared.request import Request
from busload_shared.result import BatchInfo, Output, Proof, Result, ResultError, Timing, Trigger, Usage

UNIT = Proof(spread_ms=0.0, preemptions=0)


def row(
    name: str,
    *,
    batch: str = "b1",
    size: int = 2,
    trigger: Trigger = "full",
    waited_ms: float = 10.0,
    run_ms: float = 100.0,
    held_ms: float = 0.0,
    tokens: int = 10,
    proof: Proof | None = UNIT,
    text: str = "An answer.",
) -> Result:
    """A succeeded result; batches leave in the order of their names."""
    claimed = float(sum(batch.encode()))
    return Result(
        id=name,
        status="succeeded",
        outputs=(Output(index=0, text=text, finish_reason="stop"),),
        usage=Usage(prompt_tokens=5, completion_tokens=tokens, total_tokens=tokens + 5),
        batch=BatchInfo(id=batch, size=size, position=0, trigger=trigger),
        timing=Timing(
            enqueued_ms=claimed - waited_ms,
            claimed_ms=claimed,
            started_ms=claimed,
            finished_ms=claimed + run_ms,
            waited_ms=waited_ms,
            run_ms=run_ms,
            held_ms=held_ms,
            proof=proof,
        ),
    )


def failed(name: str) -> Result:
    return Result(id=name, status="failed", error=ResultError(code="poison", message="it died twice"), attempts=2)


def test_arrivals_are_uneven_ascending_and_the_same_each_time() -> None:
    times = arrival_times(40, seed=7)
    assert times == sorted(times) == arrival_times(40, seed=7)
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert min(gaps) < 0.05
    assert max(gaps) > 1.0
    assert arrival_times(40, seed=8) != times


def test_the_demos_questions_are_a_few_dozen_of_uneven_length() -> None:
    requests = demo_requests()
    assert 24 <= len(requests) <= 60
    assert len({request.id for request in requests}) == len(requests)
    lengths = {request.max_tokens for request in requests}
    assert min(lengths) == 8
    assert max(lengths) == 80


def test_a_prompt_file_holds_lines_and_json_objects(tmp_path: Path) -> None:
    file = tmp_path / "prompts"
    file.write_text(
        'Why?\n\n{"prompt": "Once", "max_tokens": 5}\n{"id": "x", "messages": [{"role": "user", "content": "Hi"}]}'
    )
    first, second, third = read_requests(file)
    assert first.messages is not None
    assert (first.id, first.messages[0].content) == ("q-01", "Why?")
    assert (second.id, second.prompt, second.max_tokens) == ("q-02", "Once", 5)
    assert third.id == "x"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "has no prompts"),
        ("Why?\n{not json", "line 2"),
        ('{"prompt": "x", "max_token": 3}', "max_token"),
        ('{"id": "a", "prompt": "x"}\n{"id": "a", "prompt": "y"}', "repeat: a"),
    ],
)
def test_a_wrong_prompt_file_is_told_by_line(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "prompts"
    file.write_text(text)
    with pytest.raises(SettingsInvalid, match=complaint):
        read_requests(file)


def test_a_missing_prompt_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsInvalid, match="cannot read the prompts"):
        read_requests(tmp_path / "none")


def test_a_request_is_shown_in_one_line() -> None:
    assert shown_question(Request(id="a", prompt="one\ntwo")) == "one two"
    assert shown_question(Request(id="a", prompt_token_ids=(1, 2))) == "2 tokens"


def test_batches_are_told_from_rows_in_the_order_they_left() -> None:
    late = row("c", batch="b2", size=3, trigger="timeout", waited_ms=50)
    first, second = batches_of([late, row("a", run_ms=40), row("b", waited_ms=30, tokens=7)])
    assert (first.id, first.size, first.answered, first.is_back) == ("b1", 2, 2, True)
    assert (first.waited_ms, first.run_ms, first.tokens) == (30, 100, 17)
    assert (second.id, second.trigger, second.is_back) == ("b2", "timeout", False)


def test_the_summary_adds_up() -> None:
    results = [
        row("a", run_ms=40, tokens=4),
        row("b", run_ms=100, tokens=10),
        row("c", batch="b2", size=1, trigger="timeout", run_ms=60, tokens=6, waited_ms=50),
    ]
    summary = summarize([*results, failed("d")])
    assert (summary.requests, summary.batches, summary.by_trigger) == (3, 2, {"full": 1, "timeout": 1})
    assert (summary.mean_size, summary.tokens, summary.run_ms) == (1.5, 20, 160)
    assert summary.tokens_per_s == 125
    assert (summary.p50_ms, summary.p99_ms) == (110, 110)
    assert summary.was_held.most_ms == 0
    assert (summary.would_be_held.mean_ms, summary.would_be_held.most_ms) == (20, 60)


def test_the_summary_tells_how_long_rows_were_held() -> None:
    summary = summarize([row("a", run_ms=40, held_ms=60), row("b", run_ms=100)])
    assert (summary.was_held.mean_ms, summary.was_held.most_ms) == (30, 60)
    assert summary.p50_ms == 110


def test_a_summary_of_nothing_is_zeros() -> None:
    assert summarize([failed("a")]).tokens_per_s == 0
    assert one_by_one([], tokens=5) is None


def test_one_by_one_is_scaled_by_tokens() -> None:
    alone = one_by_one([row("a", run_ms=50, tokens=5), row("b", run_ms=150, tokens=15)], tokens=200)
    assert alone is not None
    assert (alone.run_ms, alone.sample) == (2000, 2)


@pytest.mark.parametrize(("share", "value"), [(0.5, 2), (0.99, 4), (0.25, 1)])
def test_percentiles_are_values_that_were_measured(share: float, value: float) -> None:
    assert percentile([4, 1, 3, 2], share) == value


def test_failures_name_the_request_and_the_reason() -> None:
    late = Proof(spread_ms=3.0, preemptions=1, gap_ms=-1.0)
    unproven, broken, poison = failures(
        [row("a"), row("b", proof=None), row("c", proof=late), failed("d")], proof_needed=True
    )
    assert unproven.startswith("b ")
    assert "3.0 ms, 1 preemptions, gap -1.0 ms" in broken
    assert poison == "d failed: poison, it died twice"
    assert failures([row("b", proof=None)], proof_needed=False) == []


def test_the_sample_is_spread_over_the_lengths_under_new_ids() -> None:
    sample = pick_sample(demo_requests(), 8)
    assert len(sample) == 8
    assert sample[0].max_tokens < 15
    assert sample[-1].max_tokens >= 48
    assert all(request.id.startswith("alone-") for request in sample)
    assert pick_sample(demo_requests()[:3], 8)[0].max_tokens == 8
    assert pick_sample(demo_requests(), 0) == []


def test_an_answer_cannot_steer_the_terminal() -> None:
    assert printable("a\x1b[31mb\r\n\tc\x07") == "a [31mb c"


@pytest.mark.parametrize(("ms", "shown"), [(3.4, "3 ms"), (999.4, "999 ms"), (2310.0, "2.31 s")])
def test_durations_are_shown_for_people(ms: float, shown: str) -> None:
    assert seconds(ms) == shown


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("width", [80, 100])
def test_a_ride_is_shown_with_and_without_a_terminal(terminal: bool, width: int) -> None:
    console = Console(file=io.StringIO(), width=width, height=24, force_terminal=terminal, color_system=None)
    view: View = LiveView(console) if terminal else PlainView(console)
    board = Board(seats=8, total=2)
    board.asked = {name: Request(id=name, prompt="Why [b]not[/b]? " * 20) for name in ("a", "b")}
    board.pushed_raw.add("b")
    with view.step("Loading", "Loaded") as tell, view.ride(board):
        tell("more")
        for name in ("a", "b"):
            board.results.append(row(name, text="word " * 200))
            view.answered(board, board.results[-1])
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    for part in ("raw LPUSH", "Why [b]not[/b]?", "full", "10 ms", "100 ms", "Loaded"):
        assert part in shown


def test_a_bus_on_the_road_shows_before_its_first_answer() -> None:
    board = Board(seats=8, total=2)
    assert board.departing is None
    worker = WorkerInfo(name="w", state="ready", batch="b1", batch_size=2)
    board.info = QueueInfo(
        queue="q", now_ms=0, waiting=0, retry=0, inflight=2, leases=1, dead=0, oldest_waiting_ms=None,
        oldest_retry_ms=None, oldest_inflight_ms=None, workers=(worker,), counters={},
    )  # fmt: skip
    assert board.departing == ("b1", 2)
    board.results.append(row("a"))
    assert board.departing is None


def test_the_closing_words_say_what_went_wrong() -> None:
    console = Console(file=io.StringIO(), width=100)
    results = [row("a", run_ms=40), row("b")]
    show_summary(console, summarize(results), one_by_one(results, tokens=20), seats=8, wrong=["c is lost"])
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "✗ c is lost" in shown
    assert "1 (1 full), 2.0 of 8 seats" in shown
    assert "came back" not in shown
