"""The simulator against what is known in closed form."""

from __future__ import annotations

import math
import random

import pytest

from busload_shared.curve import ServiceCurve
from busload_worker.simulation import (
    Bursts,
    ClosedLoop,
    Constant,
    Exponential,
    History,
    Lognormal,
    Mixed,
    Mmpp,
    Poisson,
    Scenario,
    Trace,
    bimodal,
    simulate,
)
from busload_worker.simulation.arrivals import Arrivals
from busload_worker.simulation.riding import row_ends_ms

EVERYBODY = 1_000_000
"""A size that no batch reaches."""


def linear(overhead_ms: float, row_ms: float) -> ServiceCurve:
    """A batch of n one-token rows takes overhead + n * row ms."""
    return ServiceCurve(overhead_ms=overhead_ms, prompt_ms=0.0, step_ms=0.0, token_ms=row_ms)


def inoue_bound_ms(per_ms: float, row_ms: float, overhead_ms: float) -> float:
    """Y. Inoue, Queueing analysis of GPU-based inference servers with dynamic batching (2021): the mean latency of
    a server that takes all who wait, whose batches take overhead + n * row, is at most the lesser of these."""
    load = per_ms * row_ms
    light = (row_ms + overhead_ms) / (2 * (1 - load))
    light *= 1 + 2 * per_ms * overhead_ms + (1 - per_ms * overhead_ms) / (1 + load)
    heavy = 1.5 * overhead_ms / (1 - load) + row_ms / 2 * (load + 2) / (1 - load**2)
    return min(light, heavy)


@pytest.mark.parametrize("overhead_ms", [0.5, 5.0, 50.0])
@pytest.mark.parametrize("load", [0.1, 0.5, 0.8])
def test_batches_of_all_who_wait_are_as_fast_as_queueing_theory_says(overhead_ms: float, load: float) -> None:
    """Between the bound and the bound / 1.09; where the bound is tight, within what 60,000 requests can tell."""
    per_s = 1000 * load
    outcome = simulate(
        Scenario(
            linear(overhead_ms, 1.0), Poisson(per_s), Constant(1), size=EVERYBODY, release="batch", requests=60_000
        )
    )
    bound = inoue_bound_ms(per_s / 1000, 1.0, overhead_ms)
    assert bound / 1.09 <= outcome.mean_ms <= bound * 1.01


@pytest.mark.parametrize("per_wait", [0.1, 1.0, 4.0])
def test_a_window_at_light_load_costs_what_the_formula_says(per_wait: float) -> None:
    """A worker that is free whenever a window ends: the first of a window waits all of it, and those who come within
    it what is left, half of it in the mean. Of 1 + x rows, x the mean number who come within a window."""
    wait_ms, batch_ms = 100.0, 0.001
    outcome = simulate(
        Scenario(
            linear(batch_ms, 0.0),
            Poisson(1000 * per_wait / wait_ms),
            Constant(1),
            size=EVERYBODY,
            wait_ms=wait_ms,
            requests=60_000,
        )
    )
    expected = wait_ms * (1 + per_wait / 2) / (1 + per_wait)
    assert outcome.mean_wait_ms == pytest.approx(expected, rel=0.01)


def test_a_server_without_batches_waits_as_long_as_the_formula_of_pollaczek_and_khinchine_says() -> None:
    load, mean = 0.6, 50.0
    curve = ServiceCurve(overhead_ms=0.0, prompt_ms=0.0, step_ms=1.0, token_ms=0.0)
    outcome = simulate(
        Scenario(curve, Poisson(1000 * load / mean), Constant(50), size=1, requests=100_000, warm_up=0.05)
    )
    assert outcome.mean_wait_ms == pytest.approx(load * mean / (2 * (1 - load)), rel=0.03)


def test_two_servers_wait_as_long_as_the_formula_of_erlang_says() -> None:
    load, mean = 0.7, 500.0
    curve = ServiceCurve(overhead_ms=0.0, prompt_ms=0.0, step_ms=1.0, token_ms=0.0)
    scenario = Scenario(
        curve, Poisson(2000 * load / mean), Exponential(mean), size=1, workers=2, max_tokens=10**6, requests=100_000
    )
    outcome = simulate(scenario)
    assert outcome.mean_wait_ms == pytest.approx(mean * load**2 / (1 - load**2), rel=0.04)
    assert outcome.utilisation == pytest.approx(load, rel=0.02)


@pytest.mark.parametrize("size", [4, 32])
def test_the_longest_of_a_batch_is_as_long_as_extreme_values_say(size: int) -> None:
    """Exponential lengths: the mean of the longest of n is the mean times 1 + 1/2 + … + 1/n."""
    curve = ServiceCurve(overhead_ms=0.0, prompt_ms=0.0, step_ms=1.0, token_ms=0.0)
    times = [float(i) for i in range(40_000)]
    outcome = simulate(
        Scenario(
            curve, Trace(times), Exponential(400.0), size=size, wait_ms=math.inf, max_tokens=10**6, requests=40_000
        )
    )
    longest = 1000 * size / outcome.per_s * outcome.utilisation
    assert longest == pytest.approx(400 * sum(1 / k for k in range(1, size + 1)), rel=0.02)


def test_rows_end_in_order_and_the_longest_when_the_curve_says_that_the_batch_does() -> None:
    rng = random.Random(4)
    curve = ServiceCurve(overhead_ms=12.0, prompt_ms=0.3, step_ms=4.0, token_ms=0.7)
    for _ in range(200):
        lengths = [rng.randint(1, 300) for _ in range(rng.randint(1, 40))]
        ends = row_ends_ms(curve, prompt_tokens=90, lengths=lengths)
        whole = curve.predict_ms(prompt_tokens=90, longest=max(lengths), new_tokens=sum(lengths))
        assert max(ends) == pytest.approx(whole)
        by_step = [_stepped(curve, 90, lengths, length) for length in lengths]
        assert ends == pytest.approx(by_step)


def _stepped(curve: ServiceCurve, prompt_tokens: int, lengths: list[int], length: int) -> float:
    """Step for step, as the engine does it."""
    at = curve.overhead_ms + curve.prompt_ms * prompt_tokens
    for step in range(1, length + 1):
        at += curve.step_ms + curve.token_ms * sum(1 for other in lengths if other >= step)
    return at


@pytest.mark.parametrize(
    ("arrivals", "per_s"),
    [
        (Poisson(50.0), 50.0),
        (Bursts(50.0, 8.0, 40.0), 50.0),
        (Bursts(50.0, 5, 400.0, exact=True), 50.0),
        (Mmpp(90.0, 10.0, 1000.0, 1000.0), 50.0),
        (Trace([20.0 * i for i in range(100)]), 50.0),
    ],
)
def test_arrivals_come_in_order_and_at_their_rate(arrivals: Arrivals, per_s: float) -> None:
    source, times = arrivals.source(40_000, random.Random(5)), []
    while source.next_ms() < math.inf:
        times.append(source.pop())
    assert len(times) == 40_000
    assert times == sorted(times)
    assert 1000 * len(times) / times[-1] == pytest.approx(per_s, rel=0.05)


def test_a_client_of_a_closed_loop_waits_for_its_answer() -> None:
    """Little's law: clients = rate * (time to an answer + time to think)."""
    curve = linear(40.0, 2.0)
    outcome = simulate(Scenario(curve, ClosedLoop(20, 300.0), Constant(1), size=8, requests=30_000))
    assert outcome.per_s / 1000 * (outcome.mean_ms + 300.0) == pytest.approx(20, rel=0.02)


def test_lengths_follow_their_law() -> None:
    rng = random.Random(6)
    draws = sorted(Lognormal(80, 1.0).draw(rng)[1] for _ in range(20_000))
    assert draws[10_000] == pytest.approx(80, rel=0.05)
    assert draws[16_827] == pytest.approx(80 * math.e, rel=0.05)
    assert {History([3, 9]).draw(rng)[1] for _ in range(50)} == {3, 9}
    routes = [bimodal(10, 300, 0.25).draw(rng) for _ in range(20_000)]
    assert set(routes) == {("short", 10), ("long", 300)}
    assert routes.count(("long", 300)) == pytest.approx(5000, rel=0.05)
    nested = Mixed(((1.0, bimodal(1, 2, 0.5)), (1.0, Constant(3))))
    assert {nested.draw(rng)[1] for _ in range(200)} == {1, 2, 3}
