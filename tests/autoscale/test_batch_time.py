"""What a worker can do, from what it tells."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.autoscale.strategies import batches, steady

from busload.autoscale.batch_time import BatchTime, batch_time, blended, mean_of
from busload_shared.curve import ServiceCurve

GPU = ServiceCurve(overhead_ms=10, prompt_ms=0, step_ms=20, token_ms=0.05)


@pytest.mark.parametrize("seen_rows", [1, 4, 32])
def test_the_curve_tells_of_fuller_batches_than_were_seen(seen_rows: int) -> None:
    tokens = 100
    took_s = GPU.predict_ms(prompt_tokens=0, longest=tokens, new_tokens=tokens * seen_rows) / 1000
    time = batch_time(rows_per_s=seen_rows / took_s, mean_rows=seen_rows, seats=32, curve=GPU)
    full_s = GPU.predict_ms(prompt_tokens=0, longest=tokens, new_tokens=tokens * 32) / 1000
    assert time.seconds(32) == pytest.approx(full_s)
    assert time.rows_per_s(target_s=60) == pytest.approx(32 / full_s)


def test_without_a_curve_fuller_batches_are_not_trusted_to_do_more() -> None:
    time = batch_time(rows_per_s=4.0, mean_rows=2.0, seats=32, curve=None)
    assert time.rows_per_s(target_s=60) == pytest.approx(4.0)


def test_a_short_target_asks_for_small_batches() -> None:
    time = BatchTime(1.0, 0.5, 16)
    assert [time.rows_within(target_s) for target_s in (60, 8, 4, 0.1)] == [16, 6, 2, 1]


def test_where_rows_cost_little_a_target_that_cannot_be_kept_costs_no_throughput() -> None:
    assert BatchTime(2.0, 0.01, 32).rows_within(0.1) == 32


@steady
@given(batches, st.floats(0.01, 3600), st.floats(1, 10))
def test_a_longer_target_never_means_a_slower_worker(time: BatchTime, target_s: float, times: float) -> None:
    assert 1 <= time.rows_within(target_s) <= time.rows_within(target_s * times) <= time.seats
    assert time.rows_per_s(target_s * times) >= time.rows_per_s(target_s) * (1 - 1e-9)


@steady
@given(
    rows_per_s=st.floats(1e-3, 1e4), rows=st.floats(1, 256), seats=st.integers(0, 256),
    curve=st.none() | st.builds(ServiceCurve, **dict.fromkeys(ServiceCurve.model_fields, st.floats(0, 1e4))),
)  # fmt: skip
def test_any_figures_make_a_time(rows_per_s: float, rows: float, seats: int, curve: ServiceCurve | None) -> None:
    time = batch_time(rows_per_s=rows_per_s, mean_rows=rows, seats=seats, curve=curve)
    assert time.fixed_s >= 0
    assert time.rows_per_s(30.0) > 0


def test_several_workers_make_a_mean_one_and_none_make_none() -> None:
    assert mean_of([BatchTime(1.0, 0.2, 10), BatchTime(3.0, 0.4, 30)]) == BatchTime(2.0, pytest.approx(0.3), 20)
    assert mean_of([]) is None


def test_old_figures_move_slowly_but_a_first_guess_gives_way() -> None:
    old, new = BatchTime(1.0, 0.1, 10), BatchTime(2.0, 0.2, 20)
    assert blended(old, new) == BatchTime(pytest.approx(1.05), pytest.approx(0.105), 20)
    assert blended(BatchTime(0.0, 0.1, 10), new) == new
    assert blended(old, None) == old
