"""The guard before structured outputs, with xgrammar and a vocabulary of single characters: no model needed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from busload_worker.engines.grammar_guard import NO_TIME, NO_TRIALS, PATIENCE, GrammarGuard
from busload_worker.engines.grammar_lines import Grammar

pytestmark = pytest.mark.engine

SLOW = Grammar(
    kind="json", text='{"type":"object","properties":{' + ",".join(f'"p{at}":{{}}' for at in range(4000)) + "}}"
)
TIMEOUT_S = 2.0
QUICK = Grammar(kind="regex", text="[a-z]{3}")


@pytest.fixture(scope="module")
def tokenizer() -> str:
    xgrammar = pytest.importorskip("xgrammar")
    words = [chr(code) for code in range(32, 127)] + [a + b for a in "abcdefgh" for b in "abcdefgh"] + ["<end>"]
    info = xgrammar.TokenizerInfo(words, stop_token_ids=[len(words) - 1])
    return str(info.serialize_json())


@pytest.fixture
def guard(tokenizer: str) -> Iterator[GrammarGuard]:
    guard = GrammarGuard(tokenizer, any_whitespace=False, timeout_s=TIMEOUT_S)
    yield guard
    guard.close()


def nothing() -> None:
    """Nobody has to be told that we live."""


def test_fit_grammars_pass_and_others_are_told_why(guard: GrammarGuard) -> None:
    problems = guard.problems(
        {
            0: QUICK,
            1: Grammar(kind="regex", text="((("),
            2: Grammar(kind="ebnf", text="root ::= root"),
            3: Grammar(kind="json", text='{"type":"boolean"}'),
            4: Grammar(kind="json", text="{"),
            5: Grammar(kind="lark", text='start: "a" | "b"'),
            6: Grammar(kind="ebnf", text=""),
        },
        tick=nothing,
    )
    assert sorted(problems) == [1, 2, 4, 6]
    assert problems[2] == "it allows no answer"
    assert all(len(problem) < 500 for problem in problems.values())


def test_slow_ones_wait_for_quick_ones_and_all_within_a_bound(guard: GrammarGuard) -> None:
    assert guard.problems({0: QUICK}, tick=nothing) == {}, "the process is loaded now"
    slow = {at: Grammar(kind=SLOW.kind, text=SLOW.text.replace("p1", f"q{at}")) for at in range(12)}
    quick = {at: Grammar(kind="regex", text=f"[a-z]{{{at}}}") for at in range(12, 32)}
    ticks = 0

    def tick() -> None:
        nonlocal ticks
        ticks += 1

    began = time.monotonic()
    problems = guard.problems(slow | quick, tick=tick)
    assert time.monotonic() - began < PATIENCE * TIMEOUT_S + 10
    assert sorted(problems) == sorted(slow), "every slow one is refused and no quick one"
    assert ticks > 5, "the engine is not taken for hung meanwhile"


def test_what_was_decided_is_remembered(guard: GrammarGuard) -> None:
    first = {1: NO_TIME}
    for _ in range(5):  # on a busy machine the batch's time may end before the trial's
        first = guard.problems({0: QUICK, 1: SLOW}, tick=nothing)
        if first[1] != NO_TIME:
            break
    assert sorted(first) == [1]
    assert "2 s of processor time" in first[1]
    os.kill(guard._process.pid, signal.SIGSTOP)
    assert guard.problems({5: SLOW, 6: QUICK}, tick=nothing) == {5: first[1]}, "without a trial"


def test_a_trial_that_eats_memory_is_ended_alone(tokenizer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("busload_worker.engines.grammar_guard.MEMORY_BYTES", 16 << 20)
    guard = GrammarGuard(tokenizer, any_whitespace=False, timeout_s=20.0)
    words = ",".join(f'"{at:0500}"' for at in range(2000))
    problems = guard.problems({0: Grammar(kind="json", text=f'{{"enum":[{words}]}}'), 1: QUICK}, tick=nothing)
    guard.close()
    assert sorted(problems) == [0]
    assert "memory" in problems[0] or "alloc" in problems[0]


def test_a_process_of_trials_that_dies_is_replaced(guard: GrammarGuard) -> None:
    guard.problems({0: QUICK}, tick=nothing)
    os.kill(guard._process.pid, signal.SIGKILL)
    assert guard.problems({1: Grammar(kind="regex", text="ab")}, tick=nothing) == {1: NO_TRIALS}
    assert guard.problems({1: Grammar(kind="regex", text="ab")}, tick=nothing) == {}


def test_nothing_of_it_is_left_when_it_is_closed(tokenizer: str) -> None:
    guard = GrammarGuard(tokenizer, any_whitespace=False, timeout_s=60.0)
    pid = guard._process.pid
    guard.problems({0: QUICK}, tick=nothing)
    guard.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
