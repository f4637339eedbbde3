"""What the simulator's workers do: nothing lost, nothing twice, the settings obeyed, the same figures for a seed."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from busload_shared.curve import ServiceCurve
from busload_worker.picking import PATIENCE_BATCHES
from busload_worker.simulation import (
    ORACLE,
    Backlog,
    Bursts,
    ClosedLoop,
    Constant,
    Learned,
    Lognormal,
    Mixed,
    Mmpp,
    Noisy,
    Poisson,
    Scenario,
    Trace,
    bimodal,
    simulate,
)

GPU = ServiceCurve(overhead_ms=10.0, prompt_ms=0.02, step_ms=20.0, token_ms=0.05)
FLAT = ServiceCurve(overhead_ms=100.0, prompt_ms=0.0, step_ms=0.0, token_ms=0.0)
BACKLOG = Scenario(GPU, Backlog(128), Lognormal(74, 1.0), prompt_tokens=50, requests=10_000)

scenarios = st.builds(
    Scenario,
    curve=st.sampled_from([GPU, FLAT]),
    arrivals=st.sampled_from(
        [Poisson(2.0), Bursts(3.0, 6.0, 100.0), ClosedLoop(9, 50.0), Mmpp(9.0, 0.0, 900.0, 900.0), Backlog(20)]
    ),
    lengths=st.sampled_from([Constant(20), Lognormal(30, 1.0, 400), bimodal(5, 90, 0.3)]),
    size=st.integers(1, 12),
    wait_ms=st.sampled_from([0.0, 35.5, 2000.0, "auto"]),
    order=st.sampled_from(["fifo", "length"]),
    release=st.sampled_from(["row", "batch"]),
    predictions=st.sampled_from([ORACLE, Noisy(0.7), Learned()]),
    workers=st.integers(1, 4),
    prompt_tokens=st.just(30),
    max_tokens=st.just(400),
    max_batch_tokens=st.sampled_from([None, 300, 2000]),
    cap_ms=st.sampled_from([None, 5.0]),
    requests=st.just(400),
    warm_up=st.just(0.0),
    seed=st.integers(0, 10**6),
)


@settings(deadline=None, max_examples=60)
@given(scenario=scenarios)
def test_every_request_is_answered_once_whatever_the_settings(scenario: Scenario) -> None:
    outcome = simulate(scenario)
    assert outcome.requests == 400
    assert 400 / scenario.size <= outcome.batches <= 400
    assert outcome.fill == pytest.approx(400 / outcome.batches / scenario.size)
    assert 0 < outcome.utilisation <= 1 + 1e-9
    assert outcome.p50_ms <= outcome.p95_ms <= outcome.p99_ms <= outcome.longest_ms
    assert simulate(scenario) == outcome


def test_another_seed_gives_other_figures() -> None:
    assert simulate(replace(BACKLOG, requests=500)) != simulate(replace(BACKLOG, requests=500, seed=2))


def test_a_full_batch_leaves_at_once_and_one_that_is_not_after_the_wait() -> None:
    times = [0.0, 10.0, 20.0, 1000.0, 1010.0]
    outcome = simulate(
        Scenario(FLAT, Trace(times), Constant(1), size=3, wait_ms=50.0, requests=5, warm_up=0.0, release="batch")
    )
    assert outcome.batches == 2
    assert outcome.mean_wait_ms == pytest.approx((20 + 10 + 0 + 50 + 40) / 5)


def test_who_waited_while_the_worker_was_busy_leaves_with_no_new_window() -> None:
    outcome = simulate(Scenario(FLAT, Trace([0.0, 30.0]), Constant(1), size=8, wait_ms=20.0, requests=2, warm_up=0.0))
    assert outcome.batches == 2
    assert outcome.mean_wait_ms == pytest.approx((20 + 90) / 2)


def test_batches_that_only_leave_full_end_with_the_drain() -> None:
    outcome = simulate(Scenario(FLAT, Poisson(10.0), Constant(1), size=32, wait_ms=math.inf, requests=100, warm_up=0.0))
    assert (outcome.requests, outcome.batches) == (100, 4)


def test_a_batch_is_full_by_weight_too() -> None:
    scenario = Scenario(
        FLAT, Backlog(100), Constant(10), size=32, prompt_tokens=10, max_tokens=90, max_batch_tokens=850, requests=800
    )
    assert simulate(scenario).fill == pytest.approx(8 / 32, rel=0.01)


def test_early_release_changes_latencies_and_nothing_else() -> None:
    row = simulate(replace(BACKLOG, arrivals=Poisson(1.3), release="row"))
    batch = simulate(replace(BACKLOG, arrivals=Poisson(1.3), release="batch"))
    assert row.mean_ms < 0.75 * batch.mean_ms
    assert (row.per_s, row.fill, row.batches) == (batch.per_s, batch.fill, batch.batches)
    assert batch.mean_ms - row.mean_ms == pytest.approx(row.held_ms)


def test_more_workers_do_more() -> None:
    one, four = simulate(BACKLOG), simulate(replace(BACKLOG, workers=4, arrivals=Backlog(512), requests=40_000))
    assert four.per_s == pytest.approx(4 * one.per_s, rel=0.05)


def test_rows_alike_together_do_more_under_a_backlog() -> None:
    fifo = simulate(BACKLOG)
    oracle = simulate(replace(BACKLOG, order="length"))
    noisy = simulate(replace(BACKLOG, order="length", predictions=Noisy(0.5)))
    assert oracle.per_s >= 2.6 * fifo.per_s
    assert noisy.per_s >= 1.7 * fifo.per_s
    assert oracle.longest_wait_ms <= fifo.longest_wait_ms


def test_learned_routes_do_nearly_as_much_as_an_oracle_where_routes_tell_lengths_apart() -> None:
    routes = Mixed([(1.0, Lognormal(10 * 4**i, 0.1, route=str(i))) for i in range(4)])
    fifo = simulate(replace(BACKLOG, lengths=routes))
    oracle = simulate(replace(BACKLOG, lengths=routes, order="length"))
    learned = simulate(replace(BACKLOG, lengths=routes, order="length", predictions=Learned()))
    assert learned.per_s > 2.2 * fifo.per_s
    assert learned.per_s > 0.9 * oracle.per_s


@pytest.mark.parametrize("load", [0.3, 0.7, 0.9, 1.1])
@pytest.mark.parametrize("release", ["row", "batch"])
def test_length_order_is_never_slower_in_the_mean(load: float, release: str) -> None:
    per_s = simulate(BACKLOG).per_s * load
    fifo = replace(BACKLOG, arrivals=Poisson(per_s), release=release, requests=5000)
    for predictions in (ORACLE, Noisy(0.5), Noisy(1.5)):
        by_length = replace(fifo, order="length", predictions=predictions)
        assert simulate(by_length).mean_ms <= 1.005 * simulate(fifo).mean_ms


@pytest.mark.parametrize("error", [0.0, 0.5, 3.0])
def test_nobody_is_passed_over_for_ever(error: float) -> None:
    """However wrong the predictions: from the patience on the oldest is in every batch, so a row is out after as many
    more batches as rows were older, and in a backlog of 4 batches never more than those."""
    outcome = simulate(replace(BACKLOG, order="length", predictions=Noisy(error)))
    longest_batch = GPU.predict_ms(prompt_tokens=1600, longest=2048, new_tokens=32 * 2048)
    assert outcome.longest_wait_ms <= (PATIENCE_BATCHES + 4) * longest_batch


def test_the_learned_wait_gathers_a_fan_out_and_leaves_the_lone_alone() -> None:
    bursts = Scenario(FLAT, Bursts(1.0, 8, 20.0, exact=True), Constant(1), size=16, requests=4000)
    auto, none = simulate(replace(bursts, wait_ms="auto")), simulate(bursts)
    assert auto.mean_ms < 0.75 * none.mean_ms
    lone = simulate(replace(bursts, arrivals=Poisson(1.0), wait_ms="auto"))
    assert lone.mean_wait_ms - simulate(replace(bursts, arrivals=Poisson(1.0))).mean_wait_ms < 5


def test_the_cap_bounds_the_learned_wait() -> None:
    bursts = Scenario(FLAT, Bursts(0.5, 8, 20.0, exact=True), Constant(1), size=16, requests=3000, wait_ms="auto")
    tight = simulate(replace(bursts, cap_ms=0.0))
    assert tight == simulate(replace(bursts, wait_ms=0.0))
    assert simulate(bursts).batches < tight.batches


def test_it_is_fast_enough_to_plan_with() -> None:
    began = time.process_time()
    simulate(replace(BACKLOG, order="length", predictions=Noisy(0.5), arrivals=Poisson(2.0), requests=30_000))
    assert time.process_time() - began < 15
