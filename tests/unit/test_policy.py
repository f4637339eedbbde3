"""When a worker looks again while a batch fills."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busload_shared.replies import NotYet
from busload_worker.policy import LEAST_PAUSE_MS, LONGEST_PAUSE_MS, backoff_s, pause_ms


def look(now_ms: float, depth: int, due_in_ms: float | None) -> NotYet:
    return NotYet(now_ms, depth, due_in_ms)


def test_it_looks_again_after_an_eighth_of_the_wait() -> None:
    assert pause_ms(look(0, 1, 80.0), None, max_batch_size=8, max_wait_ms=80) == 10


def test_it_never_sleeps_past_the_moment_the_oldest_is_due() -> None:
    assert pause_ms(look(0, 1, 3.0), None, max_batch_size=8, max_wait_ms=80) == 3


def test_it_looks_when_the_batch_should_be_full_at_the_rate_of_arrivals() -> None:
    before, now = look(0, 2, 80.0), look(4, 6, 76.0)

    assert pause_ms(now, before, max_batch_size=8, max_wait_ms=80) == 2  # one a millisecond, two to come


def test_a_long_wait_does_not_make_it_deaf() -> None:
    assert pause_ms(look(0, 1, 600_000.0), None, max_batch_size=8, max_wait_ms=600_000) == LONGEST_PAUSE_MS


def test_a_queue_that_shrank_tells_no_rate() -> None:
    before, now = look(0, 6, 80.0), look(4, 2, 76.0)

    assert pause_ms(now, before, max_batch_size=8, max_wait_ms=80) == 10


@given(
    st.floats(0, 1e6), st.integers(0, 100), st.floats(0, 1e5), st.floats(0, 1e6), st.integers(0, 100), st.floats(1, 1e5)
)
def test_a_pause_is_never_too_short_nor_past_the_due_time(
    before_ms: float, before: int, due: float, later: float, depth: int, wait: float
) -> None:
    first, second = look(before_ms, before, due), look(before_ms + later, depth, due)

    pause = pause_ms(second, first, max_batch_size=64, max_wait_ms=wait)

    assert min(LEAST_PAUSE_MS, due) <= pause <= min(due, max(LEAST_PAUSE_MS, wait / 8))


@pytest.mark.parametrize(("deaths", "seconds"), [(0, 0.25), (1, 0.25), (2, 0.5), (3, 1), (8, 30), (10_000, 30)])
def test_engine_starts_are_spaced_out_up_to_half_a_minute(deaths: int, seconds: float) -> None:
    assert backoff_s(deaths) == seconds
