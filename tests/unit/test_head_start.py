"""A batch is claimed a little before its oldest is due, so that it begins to run when that is due."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busload_shared.element import Element
from busload_shared.replies import Claim, Seat
from busload_shared.result import Trigger
from busload_worker.answers import Ride
from busload_worker.head_start import HeadStart

CAME = 1_000_000.0
WAIT = 10.0


def ride(*, claimed: float, started: float, trigger: Trigger = "timeout", came: float = CAME) -> Ride:
    """A batch of one; times in ms after its arrival."""
    seat = Seat(0, Element(came, 0, 0, "", "a", b"{}"), cancelled=False)
    claim = Claim("b", CAME + claimed, CAME + claimed, 0, trigger, (seat,))
    return Ride(claim, "w", size=1, started_ms=CAME + started)


def test_it_begins_without_one() -> None:
    assert HeadStart(WAIT).ms == 0


def test_it_learns_what_passes_between_the_claim_and_the_run_until_the_run_is_on_time() -> None:
    head_start = HeadStart(WAIT)
    for _ in range(100):
        claimed = WAIT - head_start.ms
        head_start.began(ride(claimed=claimed, started=claimed + 0.4))
    assert head_start.ms == pytest.approx(0.4, abs=0.01)


def test_one_slow_moment_changes_little() -> None:
    head_start = HeadStart(100.0)
    head_start.began(ride(claimed=100.0, started=5_000.0))
    assert head_start.ms <= 0.2


def test_it_is_never_more_than_a_tenth_of_the_wait_nor_than_two_ms() -> None:
    for wait_ms, most_ms in ((4.0, 0.4), (1_000.0, 2.0), (0.0, 0.0)):
        head_start = HeadStart(wait_ms)
        for _ in range(200):
            head_start.began(ride(claimed=wait_ms, started=wait_ms + 1.9))
        assert head_start.ms <= most_ms


@pytest.mark.parametrize(
    "other",
    [
        ride(claimed=3.0, started=30.0, trigger="full"),
        ride(claimed=40.0, started=42.0),
        ride(claimed=WAIT, started=-CAME),
        ride(claimed=WAIT, started=WAIT + 1, came=0.0),
    ],
    ids=["it was full", "it waited for the engine", "it never ran", "nobody knows when it came"],
)
def test_what_tells_nothing_of_the_way_is_not_learned_from(other: Ride) -> None:
    head_start = HeadStart(WAIT)
    head_start.began(other)
    assert head_start.ms == 0


@given(st.lists(st.tuples(st.floats(0, 50), st.floats(-10, 50)), max_size=50))
def test_it_stays_in_its_bounds_whatever_it_sees(seen: list[tuple[float, float]]) -> None:
    head_start = HeadStart(WAIT)
    for claimed, later in seen:
        head_start.began(ride(claimed=claimed, started=claimed + later))
        assert 0 <= head_start.ms <= 1.0
