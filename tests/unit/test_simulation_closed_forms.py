"""More of the simulator against closed forms: batches that only leave full, windows with a limit, the longest of n,
how long rows are held, Little's law."""

from __future__ import annotations

import math
from itertools import product

import pytest

from busload_shared.curve import ServiceCurve
from busload_worker.batch_times import BatchTimes
from busload_worker.simulation import (
    Backlog,
    Constant,
    Exponential,
    History,
    LengthLaw,
    Poisson,
    Scenario,
    Trace,
    bimodal,
    simulate,
)

STEPS = ServiceCurve(overhead_ms=0.0, prompt_ms=0.0, step_ms=1.0, token_ms=0.0)
"""A batch takes as many ms as its longest row has tokens."""

AT_ONCE = ServiceCurve(overhead_ms=0.001, prompt_ms=0.0, step_ms=0.0, token_ms=0.0)
"""The worker is free whenever a batch leaves."""


@pytest.mark.parametrize("size", [2, 8, 32])
def test_who_waits_for_a_full_batch_waits_for_half_of_it_to_come(size: int) -> None:
    """Of a batch of n the k-th waits for n - k more: (n - 1) / 2 arrivals in the mean."""
    scenario = Scenario(AT_ONCE, Poisson(10.0), Constant(1), size=size, wait_ms=math.inf, requests=60_000)
    assert simulate(scenario).mean_wait_ms == pytest.approx(100 * (size - 1) / 2, rel=0.02)


@pytest.mark.parametrize("per_wait", [0.5, 2.0, 6.0])
def test_a_window_with_a_limit_leaves_when_either_comes_first(per_wait: float) -> None:
    """Batches of 4. The first opens a window; of those who would come within it, Poisson distributed, 3 board at most.
    So a batch has 1 + E[min(K, 3)] rows in the mean."""
    size, wait_ms = 4, 100.0
    chances = [math.exp(-per_wait) * per_wait**k / math.factorial(k) for k in range(size - 1)]
    rows = 1 + sum(k * chance for k, chance in enumerate(chances)) + (size - 1) * (1 - sum(chances))
    arrivals = Poisson(1000 * per_wait / wait_ms)
    outcome = simulate(Scenario(AT_ONCE, arrivals, Constant(1), size=size, wait_ms=wait_ms, requests=60_000))
    assert outcome.fill * size == pytest.approx(rows, rel=0.01)


def longest_of_two_kinds(size: int) -> float:
    """10 tokens, or 100 for one row in five."""
    return 10 + 90 * (1 - 0.8**size)


def longest_of_uniform(size: int) -> float:
    """1 to 100 tokens, each as likely: the sum over t of the chance that one is t or longer."""
    return sum(1 - ((t - 1) / 100) ** size for t in range(1, 101))


def longest_of_exponential(size: int) -> float:
    """400 tokens in the mean, times the harmonic number; half a token is added by rounding up."""
    return 0.5 + 400 * sum(1 / k for k in range(1, size + 1))


LAWS = [
    (bimodal(10, 100, 0.2), longest_of_two_kinds),
    (History(range(1, 101)), longest_of_uniform),
    (Exponential(400.0), longest_of_exponential),
]


@pytest.mark.parametrize(("law", "size"), list(product(range(len(LAWS)), (1, 3, 16))))
def test_a_batch_takes_as_long_as_the_longest_of_its_rows_is_expected_to_be(law: int, size: int) -> None:
    lengths, longest = LAWS[law]
    outcome = simulate(
        Scenario(STEPS, Backlog(2 * size), lengths, size=size, max_tokens=10**6, requests=4000 * size, warm_up=0.0)
    )
    assert 1000 * size / outcome.per_s == pytest.approx(longest(size), rel=0.03)


@pytest.mark.parametrize("size", [1, 2, 5, 20])
def test_the_worker_expects_of_n_rows_what_the_closed_form_says(size: int) -> None:
    times = BatchTimes()
    times.learn(STEPS, [(0, length) for length in range(1, 101)])
    assert times.longest_of(size) == pytest.approx(longest_of_uniform(size))
    assert times(size) == pytest.approx(longest_of_uniform(size), abs=0.51), "it counts whole tokens"


def test_a_row_is_held_for_what_the_longest_is_longer_than_the_mean() -> None:
    size = 16
    outcome = simulate(Scenario(STEPS, Backlog(size), History(range(1, 101)), size=size, requests=40_000))
    assert outcome.held_ms == pytest.approx(longest_of_uniform(size) - 50.5, rel=0.02)
    assert outcome.effective == pytest.approx(50.5 / longest_of_uniform(size), rel=0.02)


@pytest.mark.parametrize("lengths", [Constant(30), bimodal(10, 100, 0.2)], ids=["like", "two kinds"])
def test_a_regular_stream_that_the_worker_keeps_up_with_never_waits(lengths: LengthLaw) -> None:
    times = [200.0 * n for n in range(2000)]
    outcome = simulate(Scenario(STEPS, Trace(times), lengths, size=8, requests=2000))
    assert outcome.longest_wait_ms == 0
    assert outcome.batches == outcome.requests
