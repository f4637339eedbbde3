"""The service curve is found again from batches that follow it, exactly or with noise, whatever their shapes."""

from __future__ import annotations

import random
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from busload_shared.curve import ServiceCurve
from busload_worker.curve_fit import ENOUGH_BATCHES, CurveFit

Batch = tuple[int, int, int]


def batches(seed: int, count: int) -> list[Batch]:
    """(prompt tokens, longest row, new tokens) of batches of mixed lengths."""
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        lengths = [max(1, int(draw.lognormvariate(4, 1))) for _ in range(draw.randint(1, 16))]
        found.append((sum(draw.randint(4, 400) for _ in lengths), max(lengths), sum(lengths)))
    return found


def learn(curve: ServiceCurve, shapes: list[Batch], *, noise: float = 0.0, seed: int = 0) -> CurveFit:
    draw, fit = random.Random(seed), CurveFit()
    for prompt, longest, new in shapes:
        ran_ms = curve.predict_ms(prompt_tokens=prompt, longest=longest, new_tokens=new)
        fit.add(prompt_tokens=prompt, longest=longest, new_tokens=new, ran_ms=ran_ms * draw.lognormvariate(0, noise))
    return fit


def errors(found: ServiceCurve, truth: ServiceCurve, shapes: list[Batch]) -> list[float]:
    wanted = [truth.predict_ms(prompt_tokens=p, longest=a, new_tokens=n) for p, a, n in shapes]
    told = [found.predict_ms(prompt_tokens=p, longest=a, new_tokens=n) for p, a, n in shapes]
    return [abs(t / w - 1) for t, w in zip(told, wanted, strict=True)]


coefficients = st.sampled_from([0.0, 0.01, 0.5, 3.0, 40.0])


@settings(max_examples=60, deadline=None)
@given(overhead=st.sampled_from([1.0, 20.0, 300.0]), prompt=coefficients, step=coefficients, token=coefficients)
def test_a_curve_that_batches_follow_is_found(overhead: float, prompt: float, step: float, token: float) -> None:
    truth = ServiceCurve(overhead_ms=overhead, prompt_ms=prompt, step_ms=step, token_ms=token)
    found = learn(truth, batches(1, 60)).curve()
    assert found is not None
    assert max(errors(found, truth, batches(2, 40))) < 0.02


def test_with_noise_the_median_error_stays_small() -> None:
    truth = ServiceCurve(overhead_ms=10, prompt_ms=0.3, step_ms=12, token_ms=2)
    found = learn(truth, batches(3, 200), noise=0.1).curve()
    assert found is not None
    assert median(errors(found, truth, batches(4, 100))) < 0.05


def test_a_change_of_the_machine_is_followed() -> None:
    before = ServiceCurve(overhead_ms=10, prompt_ms=0.3, step_ms=12, token_ms=2)
    after = ServiceCurve(overhead_ms=10, prompt_ms=0.3, step_ms=36, token_ms=6)
    fit = learn(before, batches(5, 300))
    for prompt, longest, new in batches(6, 200):
        ran_ms = after.predict_ms(prompt_tokens=prompt, longest=longest, new_tokens=new)
        fit.add(prompt_tokens=prompt, longest=longest, new_tokens=new, ran_ms=ran_ms)
    found = fit.curve()
    assert found is not None
    assert median(errors(found, after, batches(7, 50))) < 0.1


def test_batches_that_are_all_alike_are_predicted_too() -> None:
    fit = CurveFit()
    for _ in range(30):
        fit.add(prompt_tokens=100, longest=50, new_tokens=400, ran_ms=1234)
    found = fit.curve()
    assert found is not None
    assert found.predict_ms(prompt_tokens=100, longest=50, new_tokens=400) == pytest.approx(1234, rel=0.01)
    assert min(found.overhead_ms, found.prompt_ms, found.step_ms, found.token_ms) >= 0


def test_nothing_is_said_before_enough_batches_ran_and_nothing_is_learned_from_none() -> None:
    fit = CurveFit()
    for _ in range(ENOUGH_BATCHES):
        assert fit.curve() is None
        fit.add(prompt_tokens=5, longest=0, new_tokens=0, ran_ms=1)
    assert fit.curve() is None


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 10**5), st.integers(1, 10**6), st.floats(1e-3, 1e7))))
def test_no_coefficient_is_ever_negative_or_no_number(rows: list[tuple[int, int, int, float]]) -> None:
    fit = CurveFit()
    for prompt, longest, new, ran_ms in rows * 3:
        fit.add(prompt_tokens=prompt, longest=longest, new_tokens=new, ran_ms=ran_ms)
    found = fit.curve()
    if found is not None:
        values = [found.overhead_ms, found.prompt_ms, found.step_ms, found.token_ms]
        assert all(0 <= value < float("inf") for value in values)
