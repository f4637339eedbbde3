"""The policy with a queue and workers that do what it says, on a held clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.autoscale.closed_loop import TICK_S, ClosedLoop
from tests.autoscale.strategies import steady

from busload.autoscale.batch_time import BatchTime
from busload.autoscale.rules import Rules

RULES = Rules(20.0, 1, 60, quiet_s=60.0, idle_s=120.0, step=0.25, start_s=30.0)
GPU, CPU = BatchTime(2.0, 0.05, 32), BatchTime(1.0, 0.5, 16)


def turns(numbers: list[int]) -> int:
    """How often it went up after it had gone down, or down after up."""
    ups = [after > before for before, after in pairwise(numbers)]
    return sum(one != other for one, other in pairwise(ups))


def poisson(per_s: float, seed: int) -> Callable[[float], float]:
    rng = Random(seed)

    def rate(_: float) -> float:
        came, at = 0, rng.expovariate(per_s)
        while at < TICK_S:
            came, at = came + 1, at + rng.expovariate(per_s)
        return came / TICK_S

    return rate


@settings(steady, max_examples=25)
@given(
    per_s=st.floats(0.05, 20), fixed_s=st.floats(0.1, 4), row_s=st.floats(0.01, 0.3), start_s=st.floats(0, 120),
    workers=st.integers(0, 60),
)  # fmt: skip
def test_a_constant_load_comes_to_rest(
    per_s: float, fixed_s: float, row_s: float, start_s: float, workers: int
) -> None:
    rules = replace(RULES, start_s=start_s)
    loop = ClosedLoop(rules, BatchTime(fixed_s, row_s, 16), lambda _: per_s, workers=workers).run(3000)
    assert turns(loop.asked()) <= 3, "it finds its level"
    assert len(loop.asked(2000)) == 1 or turns(loop.asked(2000)) == 0, "and does not leave it and come back"
    assert len(loop.waiting) <= per_s * RULES.target_s + 1


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("per_s", [0.3, 1.0, 7.0])
@pytest.mark.parametrize("batch", [GPU, CPU], ids=["gpu", "cpu"])
def test_a_constant_load_at_random_times_does_not_make_it_flap(batch: BatchTime, per_s: float, seed: int) -> None:
    rules = replace(RULES, quiet_s=180.0)
    loop = ClosedLoop(rules, batch, poisson(per_s, seed), workers=1).run(5400)
    assert turns(loop.asked(1800)) <= 1
    assert loop.latest(1800) <= RULES.target_s


def test_a_step_up_is_met_within_the_start_of_a_few_workers_and_a_step_down_goes_slowly() -> None:
    loop = ClosedLoop(RULES, GPU, lambda t: 5.0 if t < 300 or t > 1200 else 60.0, workers=1).run(2400)
    at = {point.at_s: point for point in loop.points}
    assert at[300].asked == 1
    assert at[360].asked >= 7  # 60 a second, and nine for each worker
    assert loop.latest(600) <= RULES.target_s
    down = loop.asked(1200)
    assert down == sorted(down, reverse=True)
    assert all(after >= RULES.fewer(before) for before, after in pairwise(down))
    assert at[1200 + 55].asked == at[1200].asked
    assert loop.points[-1].asked == 1


def test_a_burst_wakes_it_from_zero_and_when_all_is_quiet_it_sleeps_again() -> None:
    rules = replace(RULES, min_workers=0)
    loop = ClosedLoop(rules, GPU, lambda t: 500.0 if 100 <= t < 101 else 0.0).run(1200)
    assert {point.asked for point in loop.points if point.at_s < 100} == {0}
    assert next(point.at_s for point in loop.points if point.asked) <= 105
    assert max(loop.asked()) <= 6, "500 requests in 16 s at nine a second each are four workers' work"
    assert turns(loop.asked()) == 1
    assert loop.points[-1].asked == 0
    assert len(loop.latencies) == 500


def test_nobody_comes_and_nothing_starts() -> None:
    loop = ClosedLoop(replace(RULES, min_workers=0), GPU, lambda _: 0.0).run(600)
    assert loop.asked() == [0]


def test_too_much_for_all_keeps_all() -> None:
    loop = ClosedLoop(replace(RULES, max_workers=3), CPU, lambda _: 20.0, workers=1).run(1200)
    assert loop.asked(200) == [3]
