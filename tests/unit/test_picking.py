"""Which rows of a backlog ride together."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from busload_shared.curve import ServiceCurve
from busload_worker.picking import PATIENCE_BATCHES, Waiter, pick
from busload_worker.runs import Runs

CURVE = ServiceCurve(overhead_ms=10.0, prompt_ms=0.02, step_ms=20.0, token_ms=0.1)
NOW_MS = 1e12

waiters = st.builds(
    Waiter,
    arrival_ms=st.floats(NOW_MS - 1e7, NOW_MS + 5),
    prompt_tokens=st.integers(0, 5000),
    length=st.floats(1, 4096),
    weight=st.integers(1, 9000),
    spread=st.one_of(st.just(0.0), st.floats(0, 1e9)),
)
windows = st.lists(waiters, max_size=64).map(lambda rows: sorted(rows, key=lambda row: row.arrival_ms))
curves = st.one_of(st.none(), st.just(CURVE), st.just(ServiceCurve(overhead_ms=0, prompt_ms=0, step_ms=0, token_ms=0)))


def rows(*lengths: float, weight: int = 1, apart_ms: float = 1.0) -> list[Waiter]:
    """Rows of these lengths, the oldest first."""
    first = NOW_MS - len(lengths) * apart_ms
    return [Waiter(first + i * apart_ms, 10, length, weight) for i, length in enumerate(lengths)]


def choose(
    window: list[Waiter], *, size: int, max_tokens: int | None = None, mean_batch_ms: float | None = None
) -> list:
    return pick(window, now_ms=NOW_MS, size=size, max_tokens=max_tokens, curve=CURVE, mean_batch_ms=mean_batch_ms)


@settings(max_examples=150, deadline=None)
@given(
    window=windows,
    size=st.integers(1, 16),
    max_tokens=st.one_of(st.none(), st.integers(1, 40_000)),
    curve=curves,
    mean_batch_ms=st.one_of(st.none(), st.floats(0.0, 1e6)),
)
def test_a_pick_is_rows_of_the_window_that_fit(window, size, max_tokens, curve, mean_batch_ms) -> None:
    picked = pick(window, now_ms=NOW_MS, size=size, max_tokens=max_tokens, curve=curve, mean_batch_ms=mean_batch_ms)
    assert picked == sorted(set(picked))
    assert all(0 <= i < len(window) for i in picked)
    assert len(picked) <= size
    assert bool(picked) == bool(window)
    if max_tokens is not None and len(picked) > 1:
        assert sum(window[i].weight for i in picked) <= max_tokens


@settings(max_examples=150, deadline=None)
@given(window=windows, size=st.integers(1, 16), max_tokens=st.one_of(st.none(), st.integers(1, 40_000)))
def test_nobody_is_left_behind_who_would_fit(window, size, max_tokens) -> None:
    """A batch under a backlog is a run of neighbours by length to which no longer neighbour can be added, or the
    oldest."""
    picked = pick(window, now_ms=NOW_MS, size=size, max_tokens=max_tokens, curve=CURVE, mean_batch_ms=None)
    if len(window) <= size or len(picked) == size or picked == choose(window[:size], size=size, max_tokens=max_tokens):
        return
    longest = max((window[i].length, i) for i in picked)
    longer = [row for i, row in enumerate(window) if i not in picked and (row.length, i) > longest]
    if longer:
        assert max_tokens is not None
        nearest = min(row.length for row in longer)
        weights = [row.weight for row in longer if row.length == nearest]
        assert sum(window[i].weight for i in picked) + max(weights) > max_tokens


@settings(max_examples=100, deadline=None)
@given(window=windows, max_tokens=st.one_of(st.none(), st.integers(1, 40_000)))
def test_without_a_backlog_the_oldest_go_in_order(window, max_tokens) -> None:
    picked = choose(window, size=64, max_tokens=max_tokens)
    assert picked == list(range(len(picked)))
    if len(picked) < len(window):
        assert max_tokens is not None
        assert sum(row.weight for row in window[: len(picked) + 1]) > max_tokens


@settings(max_examples=100, deadline=None)
@given(window=windows, size=st.integers(1, 16), max_tokens=st.one_of(st.none(), st.integers(1, 40_000)))
def test_the_oldest_boards_once_it_has_waited_long_enough(window, size, max_tokens) -> None:
    if not window:
        return
    mean_batch_ms = (NOW_MS - window[0].arrival_ms) / PATIENCE_BATCHES - 1.0
    if mean_batch_ms <= 0:
        return
    assert 0 in choose(window, size=size, max_tokens=max_tokens, mean_batch_ms=mean_batch_ms)


def test_rows_alike_ride_together() -> None:
    window = rows(10, 500, 11, 480, 12, 510, 9, 490)
    assert choose(window, size=4) in ([0, 2, 4, 6], [1, 3, 5, 7])


def test_short_ones_go_first_and_long_ones_when_they_have_waited_in_proportion() -> None:
    window = rows(500, 500, 10, 10)
    assert choose(window, size=2) == [2, 3]
    long_waited = [Waiter(NOW_MS - 1e6, 10, 500, 1)] * 2 + rows(10, 10)
    assert choose(long_waited, size=2) == [0, 1]


def test_a_row_heavier_than_a_batch_rides_alone() -> None:
    window = [Waiter(NOW_MS - 5, 10, 50, 1000), *rows(10, 20, 30, weight=40)]
    assert choose(window, size=8, max_tokens=100) == [0]
    assert choose(window[1:], size=8, max_tokens=100) == [0, 1]


def test_where_nothing_tells_rows_apart_the_oldest_go() -> None:
    assert choose(rows(*[40.0] * 12), size=4) == [0, 1, 2, 3]


def test_a_batch_of_the_old_is_not_put_off_where_likeness_gains_nothing() -> None:
    """A curve in which each token costs the same, whoever rides along; the oldest is overdue and long."""
    flat = ServiceCurve(overhead_ms=100.0, prompt_ms=0.0, step_ms=0.0, token_ms=1.0)
    window = [Waiter(NOW_MS - 1e6, 10, 300, 1), *rows(10, 150, 10), *rows(20, 160, 20, 160, 20, apart_ms=0.1)]
    assert pick(window, now_ms=NOW_MS, size=4, max_tokens=None, curve=flat, mean_batch_ms=500.0) == [0, 1, 2, 3]


def test_without_a_curve_the_longest_decides() -> None:
    window = rows(10, 500, 11, 480)
    assert pick(window, now_ms=NOW_MS, size=2, max_tokens=None, curve=None, mean_batch_ms=None) == [0, 2]


@pytest.mark.parametrize("size", [1, 4, 32])
def test_nobody_is_passed_over_for_long(size: int) -> None:
    """However the others are: an odd row among rows alike that never stop coming leaves within twice the patience, and
    the batches that the rows before it need."""
    rng, now, mean = random.Random(size), NOW_MS, 0.0
    window = [Waiter(now, 10, 3000.0 if i % (2 * size) == 0 else 10.0, 1) for i in range(4 * size)]
    longest_wait = 0.0
    for _ in range(400):
        picked = pick(
            window[: 8 * size], now_ms=now, size=size, max_tokens=None, curve=CURVE, mean_batch_ms=mean or None
        )
        lengths = [window[i].length for i in picked]
        took = CURVE.predict_ms(prompt_tokens=10 * size, longest=int(max(lengths)), new_tokens=int(sum(lengths)))
        mean = took if not mean else 0.9 * mean + 0.1 * took
        longest_wait = max(longest_wait, max(now - window[i].arrival_ms for i in picked))
        now += took
        window = [row for i, row in enumerate(window) if i not in set(picked)]
        window += [Waiter(now, 10, 3000.0 if rng.random() < 0.02 else 10.0, 1) for _ in picked]
    worst_batch = CURVE.predict_ms(prompt_tokens=10 * size, longest=3000, new_tokens=3000 * size)
    assert longest_wait <= 2 * PATIENCE_BATCHES * worst_batch


def drain_ms(lengths: list[float], *, size: int, spread: float = 0.0) -> float:
    """How long a backlog takes to which nobody is added."""
    now, mean = NOW_MS, 900.0
    left = [Waiter(now - 1000, 10, length, 1, spread) for length in lengths]
    while left:
        picked = set(pick(left, now_ms=now, size=size, max_tokens=None, curve=CURVE, mean_batch_ms=mean))
        took = batch_ms([left[i].length for i in picked])
        now, mean = now + took, 0.9 * mean + 0.1 * took
        left = [row for i, row in enumerate(left) if i not in picked]
    return now - NOW_MS


def batch_ms(lengths: list[float]) -> float:
    return CURVE.predict_ms(prompt_tokens=10 * len(lengths), longest=int(max(lengths)), new_tokens=int(sum(lengths)))


@pytest.mark.parametrize(("count", "most"), [(64, 1.02), (50, 1.1), (17, 1.1), (200, 1.1)])
def test_a_backlog_that_nobody_adds_to_ends_nearly_as_soon_as_it_can(count: int, most: float) -> None:
    """Nothing is quicker than the longest together, the next longest together, and so on."""
    rng, took_ms, least_ms = random.Random(count), 0.0, 0.0
    for _ in range(20):
        lengths = [float(round(rng.lognormvariate(4, 1))) + 1 for _ in range(count)]
        took_ms += drain_ms(lengths, size=16)
        longest_first = sorted(lengths, reverse=True)
        least_ms += sum(batch_ms(longest_first[at : at + 16]) for at in range(0, count, 16))
    assert least_ms <= took_ms <= most * least_ms


def test_a_batch_is_not_cut_out_of_the_middle_of_two_that_are_whole() -> None:
    window = rows(*[10, 11, 90, 100, 101, 400, 410, 420], apart_ms=0.0)
    assert choose(window, size=4) in ([0, 1, 2, 3], [4, 5, 6, 7])


def test_a_batch_that_stays_half_empty_costs_only_where_nobody_comes_any_more() -> None:
    """Five wait, a batch takes four. If others come, the long one waits for those like it; else it rides now."""
    window = rows(400, 200, 200, 10, 200)
    assert choose(window, size=4, mean_batch_ms=1e6) == [1, 2, 3, 4]
    assert choose(window, size=4, mean_batch_ms=0.5) == [0, 1, 2, 4]


@settings(max_examples=150, deadline=None)
@given(window=windows, size=st.integers(1, 16), max_tokens=st.one_of(st.none(), st.integers(1, 40_000)))
def test_what_a_run_adds_is_what_all_cost_with_it_less_what_they_cost_at_best(window, size, max_tokens) -> None:
    def full_batches_ms(rows: list[Waiter]) -> float:
        """The longest rows together, the next longest together, and so on."""
        taken: list[Waiter] = []
        for row in reversed(rows):
            weight = sum(one.weight for one in taken) + row.weight
            if taken and (len(taken) == size or (max_tokens is not None and weight > max_tokens)):
                break
            taken.append(row)
        left = rows[: len(rows) - len(taken)]
        return CURVE.overhead_ms + CURVE.step_ms * taken[0].length + full_batches_ms(left) if taken else 0.0

    ordered = sorted((row._replace(spread=0.0, weight=5000) for row in window), key=lambda row: row.length)
    runs = Runs(ordered, now_ms=NOW_MS, size=size, max_tokens=max_tokens, curve=CURVE, last_ones=True)
    for first, end in runs.all():
        run = CURVE.overhead_ms + CURVE.step_ms * ordered[end - 1].length
        with_it = run + full_batches_ms(ordered[:first] + ordered[end:])
        assert runs.added_ms(first, end) == pytest.approx(with_it - full_batches_ms(ordered), abs=1e-3)


@pytest.mark.parametrize(("spread", "picked"), [(0.0, [2, 3]), (1.0, [0, 1])])
def test_the_less_sure_lengths_are_the_less_likeness_counts(spread: float, picked: list[int]) -> None:
    """Two who have waited long are not very like; the other two are."""
    due = [Waiter(NOW_MS - 7000, 10, length, 1, spread) for length in (60.0, 100.0)]
    alike = [Waiter(NOW_MS - 1000, 10, 30.0, 1, spread) for _ in range(2)]
    assert choose([*due, *alike], size=2) == picked


@pytest.mark.parametrize("spread", [0.2, 0.5, 1.0])
def test_the_longest_of_many_alike_is_expected_about_where_it_comes(spread: float) -> None:
    """Between the length that was predicted for each and the mean of the longest of 16."""
    rng = random.Random(1)
    longest = sum(max(rng.lognormvariate(0, spread) for _ in range(16)) for _ in range(4000)) / 4000
    steps_only = ServiceCurve(overhead_ms=0, prompt_ms=0, step_ms=1, token_ms=0)
    alike = [Waiter(NOW_MS, 0, 100.0, 1, spread)] * 16
    expected = Runs(alike, now_ms=NOW_MS, size=16, max_tokens=None, curve=steps_only, last_ones=False).time_ms(0, 16)
    assert 100 * math.exp(spread / 2) <= expected <= 100 * longest


def test_a_large_window_costs_little() -> None:
    """Work grows as the window does: ten times the rows look at each row as often."""
    looked = []
    for count in (800, 8000):
        window = [_Counted(NOW_MS - count + i, 10, float(1 + i * 7919 % 997), 1) for i in range(count)]
        _Counted.reads = 0
        choose(window, size=32)
        looked.append(_Counted.reads / count)
    assert looked[1] <= 1.05 * looked[0]


class _Counted(Waiter):
    """Counts how often its length is read."""

    reads = 0

    @property
    def length(self) -> float:  # type: ignore[override]
        _Counted.reads += 1
        return self[2]
