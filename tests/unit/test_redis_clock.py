"""What replies tell of the Redis clock: bounds that narrow, and start anew where a clock was set."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busload_shared.redis_clock import RedisClock

OFFSET_S = 1_800_000_000.0
"""The true offset: Redis shows the monotonic clock plus this."""

trips = st.floats(min_value=0.00005, max_value=0.5)


def shown(at: float) -> float:
    return (OFFSET_S + at) * 1000


def test_one_reply_is_taken_to_come_from_halfway() -> None:
    read_at = RedisClock().read_at(shown(10.1), asked_at=10.0, heard_at=10.4)

    assert read_at == pytest.approx(10.2, abs=1e-6)


def test_a_slow_reply_is_read_by_the_clock_that_quick_ones_showed() -> None:
    clock = RedisClock()
    clock.read_at(shown(10.0001), asked_at=10.0, heard_at=10.0002)

    read_at = clock.read_at(shown(10.5), asked_at=10.49, heard_at=12.5)

    assert read_at == pytest.approx(10.5, abs=0.0003 + 2.5e-4)


def test_after_a_clock_was_set_only_what_came_since_counts() -> None:
    clock = RedisClock()
    clock.read_at(shown(10.0001), asked_at=10.0, heard_at=10.0002)

    for at in (20.0, 21.0):
        read_at = clock.read_at(shown(at) - 3_600_000, asked_at=at - 0.001, heard_at=at + 0.001)

        assert read_at == pytest.approx(at, abs=1e-5)


@given(st.lists(st.tuples(trips, trips), min_size=1, max_size=50))
def test_a_reading_lies_between_its_question_and_its_reply(replies: list[tuple[float, float]]) -> None:
    clock, at = RedisClock(), 1000.0
    for there, back in replies:
        asked_at, at, heard_at = at, at + there, at + there + back

        read_at = clock.read_at(shown(at), asked_at=asked_at, heard_at=heard_at)

        assert asked_at - 1e-6 <= read_at <= heard_at + 1e-6
        at = heard_at
