"""What the policy promises, whatever it sees."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.autoscale.strategies import memories, rules, sights, steady

from busload.autoscale.batch_time import BatchTime
from busload.autoscale.policy import Decision, Memory, decide
from busload.autoscale.rules import Rules
from busload.autoscale.sight import Sight
from busload_shared.errors import SettingsInvalid

RULES = Rules(20.0, 0, 10, quiet_s=60.0, idle_s=300.0, step=0.25, start_s=30.0)
BATCH = BatchTime(1.0, 0.1, 10)
"""Five a second with full batches."""

QUIET = Sight(1000.0, 0, 0, 0.0, 0.0, 0.0, ready=0, coming=0, batch=None)


def asked(n: int, **more: object) -> Memory:
    return replace(Memory(n, changed_s=0.0, busy_s=1000.0, batch=BATCH), **more)  # type: ignore[arg-type]


@steady
@given(sights, rules(), memories)
def test_the_number_is_within_the_bounds_or_on_its_way_there(sight: Sight, rules: Rules, memory: Memory | None) -> None:
    decision = decide(sight, rules, memory)
    before = memory.asked if memory else sight.ready + sight.coming
    assert rules.min_workers <= decision.workers <= max(rules.max_workers, before)
    assert decision.workers < before or before <= rules.max_workers or decision.workers == rules.max_workers
    assert rules.min_workers <= decision.need <= rules.max_workers
    assert decision.memory.asked == decision.workers


@steady
@given(sights, rules(), memories, st.integers(0, 1_000_000))
def test_more_waiting_never_means_fewer_workers(sight: Sight, rules: Rules, memory: Memory | None, more: int) -> None:
    deeper = replace(sight, waiting=sight.waiting + more)
    assert decide(deeper, rules, memory).workers >= decide(sight, rules, memory).workers


@steady
@given(sights, rules(), memories, st.floats(0, 10_000))
def test_an_older_oldest_never_means_fewer_workers(
    sight: Sight, rules: Rules, memory: Memory | None, more: float
) -> None:
    older = replace(sight, oldest_s=sight.oldest_s + more)
    assert decide(older, rules, memory).workers >= decide(sight, rules, memory).workers


@steady
@given(sights, rules(), memories, st.floats(0, 1000))
def test_more_arrivals_never_mean_fewer_workers(sight: Sight, rules: Rules, memory: Memory | None, more: float) -> None:
    denser = replace(sight, arrivals_per_s=sight.arrivals_per_s + more)
    assert decide(denser, rules, memory).workers >= decide(sight, rules, memory).workers


@steady
@given(sights, rules(), memories)
def test_workers_go_one_limited_step_at_a_time_and_never_within_the_quiet_time(
    sight: Sight, rules: Rules, memory: Memory | None
) -> None:
    decision = decide(sight, rules, memory)
    if memory is not None and decision.workers < memory.asked <= rules.max_workers:
        assert decision.workers >= rules.fewer(memory.asked)
        assert sight.at_s - memory.changed_s >= rules.quiet_s


@steady
@given(sights, rules(), memories)
def test_work_keeps_a_worker(sight: Sight, rules: Rules, memory: Memory | None) -> None:
    if sight.waiting + sight.inflight:
        assert decide(sight, rules, memory).workers >= 1


def test_what_is_needed_comes_at_once() -> None:
    decision = decide(replace(QUIET, waiting=500, ready=1), RULES, asked(1))
    assert (decision.workers, decision.why) == (4, "more")  # in 30 s 350 are left, for 18 s at 5 a second each


def test_the_first_arrival_starts_a_worker() -> None:
    decision = decide(replace(QUIET, waiting=1), RULES, asked(0, busy_s=0.0))
    assert (decision.workers, decision.why) == (1, "first")


def test_rows_in_flight_keep_a_worker_that_can_take_them_back() -> None:
    assert decide(replace(QUIET, inflight=1), RULES, asked(0, busy_s=0.0)).workers == 1


@pytest.mark.parametrize(("idle_s", "workers"), [(299.0, 1), (301.0, 0)])
def test_the_last_worker_goes_after_the_idle_time(idle_s: float, workers: int) -> None:
    sight = replace(QUIET, arrivals_per_s=0.5)  # of the last minutes: they have all been answered
    assert decide(sight, RULES, asked(1, busy_s=QUIET.at_s - idle_s)).workers == workers


def test_a_backlog_that_is_over_before_a_new_worker_is_ready_starts_none() -> None:
    sight = replace(QUIET, waiting=140, ready=1)  # done in 28 s
    assert decide(sight, RULES, asked(1)).workers == 1
    assert decide(sight, replace(RULES, start_s=5.0), asked(1)).workers == 2


def test_workers_that_are_starting_count() -> None:
    sight = replace(QUIET, waiting=500, ready=1, coming=5)
    assert decide(sight, RULES, asked(6, changed_s=990.0)).workers == 6


def test_without_any_figure_one_worker_is_started_to_learn_it() -> None:
    sight = replace(QUIET, waiting=5000)
    assert decide(sight, RULES, asked(0, batch=None)).workers == 1
    assert decide(sight, RULES, asked(3, batch=None)).workers == 3


def test_what_a_worker_does_is_remembered_when_none_is_left() -> None:
    assert decide(replace(QUIET, waiting=500), RULES, asked(0)).workers == 6


def test_a_peak_holds_the_workers_for_the_quiet_time() -> None:
    memory = decide(replace(QUIET, waiting=500, ready=1), RULES, asked(1)).memory
    later = [decide(replace(QUIET, at_s=QUIET.at_s + after, ready=4), RULES, memory) for after in (59.0, 61.0)]
    assert [(decision.workers, decision.why) for decision in later] == [(4, "enough"), (3, "fewer")]


def test_figures_that_promise_too_much_are_corrected_by_one_worker_at_a_time() -> None:
    late = replace(QUIET, waiting=10, oldest_s=25.0, ready=2)
    first = decide(late, RULES, asked(2))
    assert (first.workers, first.need) == (2, 1)
    in_time = decide(replace(late, at_s=late.at_s + 49.0), RULES, first.memory)
    assert in_time.workers == 2
    second = decide(replace(late, at_s=late.at_s + 51.0), RULES, in_time.memory)
    assert (second.workers, second.why) == (3, "late")
    third = decide(replace(late, at_s=late.at_s + 56.0), RULES, second.memory)
    assert third.workers == 3


def test_nobody_is_taken_away_while_requests_are_late() -> None:
    late = replace(QUIET, waiting=10, oldest_s=25.0, ready=3)
    memory, decision = asked(3), None
    for look in range(60):
        decision = decide(replace(late, at_s=late.at_s + look, ready=0), RULES, memory)
        memory = decision.memory
    assert isinstance(decision, Decision)
    assert decision.workers == 3


@pytest.mark.parametrize(
    "wrong", [{"min_workers": 5, "max_workers": 4}, {"max_workers": 0}, {"min_workers": -1}, {"target_s": 0.0},
              {"step": 0.0}, {"step": 1.5}, {"quiet_s": -1.0}],
)  # fmt: skip
def test_rules_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(SettingsInvalid, match="--"):
        replace(RULES, **wrong)  # type: ignore[arg-type]
