"""The learned wait: what is learned from arrivals, and when a batch waits for one more."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from busload_shared.curve import ServiceCurve
from busload_worker.batch_times import ROWS, BatchTimes
from busload_worker.hazards import MEMORY
from busload_worker.waiting_rule import Decision, Hazards, Kind, wait_on

FLAT_MS = 1000.0


def flat(n: int) -> float:
    """A batch takes a second, whatever its size."""
    return FLAT_MS


def decide(hazards: Hazards, n: int = 1, u_ms: float = 0.0, **other: object) -> Decision:
    facts = {"kind": "arrival", "size": 8, "tau": flat, "waited_ms": 0.0, "cap_ms": None} | other
    return wait_on(n, u_ms, hazards=hazards, **facts)  # type: ignore[arg-type]


def clumped(clumps: int = 60, *, rows: int = 4, gap_ms: float = 3.0, apart_ms: float = 20_000.0) -> Hazards:
    """Clients that fan out: four at a time, then nobody for long."""
    hazards, at = Hazards(), 0.0
    for _ in range(clumps):
        at += apart_ms
        hazards.observe([at + i * gap_ms for i in range(rows)], None)
    return hazards


def test_who_knows_nothing_does_not_wait() -> None:
    assert not decide(Hazards()).wait


def test_a_lone_request_leaves_at_once_when_others_come_at_random_and_seldom() -> None:
    rng, hazards, at = random.Random(1), Hazards(), 0.0
    for _ in range(500):
        at += rng.expovariate(1 / 5000)
        hazards.observe([at], None)
    assert not decide(hazards).wait


def test_within_a_clump_it_waits_and_past_it_it_leaves() -> None:
    hazards = clumped()
    early = decide(hazards)
    assert early.wait
    assert 3.0 <= early.look_in_ms < 10
    assert not decide(hazards, u_ms=50.0).wait


def test_the_end_of_a_batch_is_learned_apart_from_arrivals() -> None:
    """Clients that send again a moment after they were answered, all at one time."""
    hazards, at = Hazards(), 0.0
    for _ in range(80):
        at += 2000.0
        hazards.observe([at + 30.0, at + 30.1], at)
    assert decide(hazards, kind="completion").wait
    assert not decide(hazards, kind="arrival", u_ms=1.0).wait


def test_a_clump_that_a_batch_s_end_falls_into_is_waited_for_too() -> None:
    """Nothing is known of times after a batch's end, but the newest came just now, and others with it."""
    hazards = clumped()
    assert not decide(hazards, kind="completion").wait
    assert decide(hazards, kind="completion", since_arrival_ms=1.0).wait
    assert not decide(hazards, kind="completion", since_arrival_ms=500.0).wait


def test_somebody_who_comes_surely_but_later_is_worth_a_wait_through_a_time_when_nobody_comes() -> None:
    """A look at this moment's hazard alone would leave at once: it is 0 for a while."""
    hazards, at = Hazards(), 0.0
    for _ in range(100):
        at += 5000.0
        hazards.observe([at, at + 40.0], None)
    decision = decide(hazards)
    assert decision.wait
    assert decision.look_in_ms >= 40


def test_a_long_gap_in_a_clump_is_waited_through_for_all_who_follow() -> None:
    """Thirty come within 400 ms, at random. After 60 ms without any the clump is probably over; if not, many are to
    come. For one more alone nobody would wait: where there is room for one, it leaves."""
    rng, hazards = random.Random(1), Hazards()
    for clump in range(40):
        hazards.observe(sorted(20_000 * clump + rng.random() * 400 for _ in range(30)), None)
    for n in (5, 10):
        assert decide(hazards, n=n, u_ms=60.0, size=48).wait
        assert not decide(hazards, n=n, u_ms=60.0, size=n + 1).wait
        assert not decide(hazards, n=n, u_ms=150.0, size=48).wait


def test_the_wait_is_no_longer_than_half_of_the_batch() -> None:
    hazards = clumped()
    assert decide(hazards, waited_ms=499.0).look_in_ms <= 1.0
    late = decide(hazards, waited_ms=500.0)
    assert not late.wait
    assert "half" in late.reason


def test_the_wait_is_no_longer_than_the_cap() -> None:
    hazards = clumped()
    assert decide(hazards, cap_ms=3.5).look_in_ms == 3.5
    assert not decide(hazards, cap_ms=2.0).wait, "nobody comes so soon"
    assert not decide(hazards, cap_ms=0.0).wait


def test_a_full_batch_leaves() -> None:
    assert not decide(clumped(), n=8).wait


def test_nobody_waits_for_one_who_would_cost_the_others_more_than_a_batch_of_its_own() -> None:
    assert not decide(clumped(), tau=lambda n: 100.0 * n, n=2).wait
    assert decide(clumped(), n=2).wait


def test_few_arrivals_prove_nothing() -> None:
    hazards = clumped(clumps=1)
    hazards.observe([60_000.0], None)
    assert not decide(hazards).wait
    assert decide(clumped(clumps=10)).wait


@settings(deadline=None, max_examples=200)
@given(
    gaps=st.lists(st.floats(0, 1e7), max_size=40),
    n=st.integers(1, 12),
    u_ms=st.floats(0, 1e7),
    kind=st.sampled_from(["arrival", "completion"]),
    waited_ms=st.floats(0, 2000),
    cap_ms=st.one_of(st.none(), st.floats(-10, 2000)),
    slope=st.floats(0, 500),
)
def test_every_decision_is_bounded_and_says_why(
    gaps: list[float], n: int, u_ms: float, kind: Kind, waited_ms: float, cap_ms: float | None, slope: float
) -> None:
    hazards, at = Hazards(), 1e12
    for i, gap in enumerate(gaps):
        at += gap
        hazards.observe([at], at - gap / 2 if i % 3 == 0 else None)
    decision = decide(
        hazards, n=n, u_ms=u_ms, kind=kind, waited_ms=waited_ms, cap_ms=cap_ms, tau=lambda rows: 10 + slope * rows
    )
    assert decision.reason
    assert "\n" not in decision.reason
    if decision.wait:
        assert n < 8
        assert 0 < decision.look_in_ms <= (10 + slope * n) / 2 - waited_ms
        assert cap_ms is None or decision.look_in_ms <= cap_ms


def test_rows_that_came_back_to_the_queue_do_not_count_again() -> None:
    once, twice = Hazards(), Hazards()
    for hazards, calls in ((once, [[0, 10, 20, 30, 40]]), (twice, [[0, 10, 20], [0, 10], [10, 30], [40], [30]])):
        for call in calls:
            hazards.observe(call, None)
    assert once.table("arrival") == twice.table("arrival")


def test_rows_that_came_at_the_same_moment_are_learned_even_if_one_left_without_the_others() -> None:
    """A client's bulk has one stamp. Who only saw that the first was alone would let it go alone for ever."""
    hazards = Hazards()
    for i in range(40):
        hazards.observe([10_000.0 * i], None)
        hazards.observe([10_000.0 * i] * 5, None)
    assert decide(hazards).wait


def test_a_batch_s_end_parts_the_gap_it_falls_into() -> None:
    hazards = Hazards()
    hazards.observe([0.0], None)
    hazards.observe([100.0], 60.0)
    assert sum(line.arrivals for line in hazards.table("arrival")) == 0
    assert sum(line.waited_ms for line in hazards.table("arrival")) == pytest.approx(60, rel=0.01)
    assert sum(line.arrivals for line in hazards.table("completion")) == pytest.approx(1)
    assert sum(line.waited_ms for line in hazards.table("completion")) == pytest.approx(40, rel=0.01)


def test_a_batch_s_end_is_kept_until_it_is_known_who_came_next() -> None:
    """Rows that came before it may have been told of later, and so may those of an earlier batch's end."""
    hazards = Hazards()
    hazards.observe([0.0], None)
    hazards.observe([10.0], 50.0)
    hazards.observe([70.0, 90.0], 200.0)
    hazards.observe([230.0], 230.0)
    ends = hazards.table("completion")
    assert sum(line.arrivals for line in ends) == pytest.approx(2, rel=0.01)
    assert sum(line.waited_ms for line in ends) == pytest.approx(20 + 30 + 0, rel=0.01)


def test_where_others_claim_too_gaps_between_claims_are_not_taken_for_gaps_between_arrivals() -> None:
    hazards = Hazards()
    hazards.observe([0.0, 10.0], None, gapless=False)
    hazards.observe([5000.0, 5010.0], None, gapless=False)
    assert sum(line.waited_ms for line in hazards.table("arrival")) == pytest.approx(20, rel=0.01)


def test_what_is_long_ago_is_forgotten() -> None:
    hazards = clumped()
    at = 1e9
    for _ in range(2000):
        at += 5000.0
        hazards.observe([at], None)
    assert not decide(hazards).wait


def test_weights_stay_finite_however_long_a_worker_lives() -> None:
    hazards = Hazards()
    for _ in range(30_000):
        hazards.arrival(5.0, "arrival")
    lines = hazards.table("arrival")
    assert sum(line.arrivals for line in lines) == pytest.approx(1 / (1 - MEMORY), rel=0.01)
    assert all(math.isfinite(line.waited_ms) for line in lines)
    assert hazards.per_ms() == pytest.approx(1 / 5.0)


def test_the_time_of_a_batch_grows_with_its_longest_row() -> None:
    """The mean of the longest of n among the answers seen, which for exponential lengths is the sum of 1/k."""
    rng, times = random.Random(2), BatchTimes()
    assert times(4) == 0.0
    curve = ServiceCurve(overhead_ms=5.0, prompt_ms=0.1, step_ms=1.0, token_ms=0.0)
    expected = {n: 200 * sum(1 / k for k in range(1, n + 1)) for n in (1, 4, 16)}
    found = dict.fromkeys(expected, 0.0)
    for _ in range(60):
        times.learn(curve, [(10, max(1, round(rng.expovariate(1 / 200)))) for _ in range(ROWS)])
        for n in found:
            found[n] += (times(n) - 5.0 - n) / 60
    assert found == pytest.approx(expected, rel=0.08)
