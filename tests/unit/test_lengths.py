"""How long answers will be, learned by route."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from busload_shared.request import ChatMessage, Request
from busload_worker.lengths import KEYS, MEMORY, Lengths, Moments, key_of, predict, prompt_tokens, weight

lengths_seen = st.lists(st.integers(1, 100_000), max_size=50)


def request(**fields: object) -> Request:
    return Request(**({"id": "1", "prompt": "Hello"} | fields))  # type: ignore[arg-type]


def test_what_is_learned_comes_near_the_middle_and_a_bit_above() -> None:
    rng, lengths = random.Random(1), Lengths()
    for _ in range(1000):
        lengths.observe("a", 100 * math.exp(0.6 * rng.gauss(0, 1)))
    assert lengths.predict("a", 4096).length == pytest.approx(100 * math.exp(0.5 * 0.6), rel=0.15)


@pytest.mark.parametrize("deviation", [0.0, 0.3, 1.2])
def test_how_much_answers_differ_is_learned_too(deviation: float) -> None:
    rng, lengths = random.Random(3), Lengths()
    for _ in range(2000):
        lengths.observe("a", 500 * math.exp(deviation * rng.gauss(0, 1)))
    assert lengths.predict("a", 1000).spread == pytest.approx(deviation, rel=0.2, abs=0.02)


def test_a_change_is_followed_within_some_hundred_answers() -> None:
    lengths = Lengths()
    for _ in range(1000):
        lengths.observe("a", 1000)
    for _ in range(500):
        lengths.observe("a", 10)
    assert lengths.predict("a", 4096).length < 20


def test_routes_are_learned_apart() -> None:
    lengths = Lengths()
    for _ in range(50):
        lengths.observe("short", 5)
        lengths.observe("long", 800)
    assert lengths.predict("short", 1024).length * 20 < lengths.predict("long", 1024).length


def test_of_an_unknown_route_more_is_expected_where_more_is_allowed() -> None:
    guesses = [Lengths().predict("new", most).length for most in (1, 16, 256, 4096)]
    assert guesses == sorted(guesses)
    assert all(1 <= guess <= most for guess, most in zip(guesses, (1, 16, 256, 4096), strict=True))


@settings(deadline=None)
@given(seen=lengths_seen, most=st.integers(1, 1_000_000))
def test_a_prediction_is_a_length_that_is_allowed(seen: list[int], most: int) -> None:
    lengths = Lengths()
    for length in seen:
        lengths.observe("a", length)
    assert 1 <= lengths.predict("a", most).length <= most


@settings(deadline=None)
@given(first=lengths_seen, second=lengths_seen)
def test_a_batch_at_once_is_learned_like_its_sum(first: list[int], second: list[int]) -> None:
    """Workers add the moments of their batches to what is in Redis."""
    both = Moments.of(first).plus(Moments.of(second))
    assert both == pytest.approx(Moments.of(first + second))
    apart, at_once = Lengths(), Lengths()
    apart.learn("a", Moments.of(first))
    apart.learn("a", Moments.of(second))
    at_once.put("a", Moments.of(first).decayed(MEMORY ** len(second)).plus(Moments.of(second)))
    assert apart.items() == at_once.items()


def test_as_many_routes_as_agreed_are_remembered_and_the_unused_make_room() -> None:
    lengths = Lengths()
    lengths.observe("kept", 7)
    for i in range(3 * KEYS):
        lengths.observe(str(i), 7)
        lengths.observe("kept", 7)
    assert len(lengths) == KEYS
    assert lengths.predict("kept", 4096).length < 10


def test_requests_without_a_route_are_learned_by_their_size() -> None:
    keys = {
        key_of(request(max_tokens=64, prompt="x" * 400)),
        key_of(request(max_tokens=1024, prompt="x" * 400)),
        key_of(request(max_tokens=64, prompt="x" * 40_000)),
        key_of(request(route="size:6:7")),
    }
    assert len(keys) == 4
    assert key_of(request(max_tokens=64, prompt="x" * 400)) == key_of(request(max_tokens=60, prompt="y" * 390))


@settings(deadline=None, max_examples=200)
@given(most=st.integers(1, 1_000_000), characters=st.integers(1, 200_000))
def test_sizes_make_few_keys(most: int, characters: int) -> None:
    _, tokens, prompt = key_of(request(max_tokens=most, prompt="x" * characters)).split(":")
    assert 0 <= int(tokens) <= 20
    assert 0 <= int(prompt) <= 20


def test_the_prompt_is_estimated_whatever_form_it_has() -> None:
    assert prompt_tokens(request(prompt="x" * 400)) == 100
    assert prompt_tokens(request(prompt=None, prompt_token_ids=(1, 2, 3))) == 3
    turns = (ChatMessage(role="user", content="x" * 40), ChatMessage(role="assistant", content=""))
    assert prompt_tokens(request(prompt=None, messages=turns)) == 18


def test_a_request_weighs_its_prompt_and_all_it_may_write() -> None:
    assert weight(request(prompt="x" * 40, max_tokens=50)) == 60
    assert weight(request(prompt="x" * 40, max_tokens=50, n=3)) == 160


def test_an_answer_that_cannot_end_early_is_known() -> None:
    lengths = Lengths()
    for _ in range(50):
        lengths.observe("route:r", 5)
    assert predict(request(route="r", max_tokens=300), lengths).length < 10
    assert predict(request(route="r", max_tokens=300, ignore_eos=True), lengths) == (300, 0)
    assert predict(request(route="r", max_tokens=300, ignore_eos=True, stop=("end",)), lengths).length < 10
    assert predict(request(route="r", max_tokens=300, min_tokens=300), lengths) == (300, 0)
    assert predict(request(route="r", max_tokens=300, min_tokens=40), lengths).length == 40
