"""How long answers will be, learned for each route from those that were. Pure; the simulator runs it too.

Lengths spread over orders of magnitude, so it is their logarithms whose mean and deviation are learned. What a worker
learns is a sum, so that all workers of a queue can keep one: each adds the `Moments` of its batches.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple, Self

from busload_shared.request import Request

KEYS = 1000
"""Routes remembered; the one unused for longest makes room."""

MEMORY = 0.99
"""Weight of a length against the one after it: some hundred answers of a route are remembered."""

CAUTION = 0.5
"""Standard deviations above the mean: a row that outlives its batch's others costs more than one that ends early."""

PRIOR_SHARE = 0.5
PRIOR_SPREAD = 0.5
"""What is taken for an answer of which nothing is known: half its max_tokens, and the deviation of its logarithm."""

PRIOR_COUNT = 2.0
PRIOR_FADES = 4.0
"""How many answers that guess weighs as much as; less once so many were seen, and soon nothing."""


class Prediction(NamedTuple):
    """New tokens to expect, and the deviation of the logarithm of what comes; 0 where it is certain."""

    length: float
    spread: float


class Moments(NamedTuple):
    """Sums over the logarithms of lengths: how many, their sum, the sum of their squares."""

    count: float = 0.0  # type: ignore[assignment] # tuple.count is of no use here
    total: float = 0.0
    squares: float = 0.0

    @classmethod
    def of(cls, lengths: Iterable[float]) -> Self:
        """Of these lengths, in tokens."""
        logs = [math.log(max(1.0, length)) for length in lengths]
        return cls(float(len(logs)), sum(logs), sum(log * log for log in logs))

    def decayed(self, factor: float) -> Moments:
        """With all that is in it counting less."""
        return Moments(self.count * factor, self.total * factor, self.squares * factor)

    def plus(self, other: Moments) -> Moments:
        """Of both."""
        return Moments(self.count + other.count, self.total + other.total, self.squares + other.squares)

    def then(self, newer: Moments) -> Moments:
        """Of both, where `newer` came after: each answer makes what came before count a little less."""
        return self.decayed(MEMORY**newer.count).plus(newer)

    def expect(self, max_tokens: int) -> Prediction:
        """What to expect of an answer of at most `max_tokens`: a little above the middle."""
        guess = math.log(max(1.0, PRIOR_SHARE * max_tokens))
        prior = Moments(1.0, guess, guess * guess + PRIOR_SPREAD**2).decayed(
            PRIOR_COUNT / (1 + self.count / PRIOR_FADES)
        )
        known = self.plus(prior)
        mean = known.total / known.count
        deviation = math.sqrt(max(0.0, known.squares / known.count - mean * mean))
        return Prediction(max(1.0, min(float(max_tokens), math.exp(mean + CAUTION * deviation))), deviation)


NOTHING = Moments()


class Lengths:
    """Moments for each key, the keys bounded. A worker's own, or its copy of what all workers learned."""

    def __init__(self, *, keys: int = KEYS) -> None:
        self._keys = keys
        self._moments: OrderedDict[str, Moments] = OrderedDict()

    def __len__(self) -> int:
        return len(self._moments)

    def predict(self, key: str, max_tokens: int) -> Prediction:
        """New tokens to expect, from 1 to `max_tokens`."""
        return self._moments.get(key, NOTHING).expect(max_tokens)

    def observe(self, key: str, length: float) -> None:
        """An answer had so many tokens."""
        self.learn(key, Moments.of([length]))

    def learn(self, key: str, newer: Moments) -> None:
        """Answers had these lengths, the newest of all."""
        self.put(key, self._moments.get(key, NOTHING).then(newer))

    def put(self, key: str, moments: Moments) -> None:
        """What is known of a key is this: others learned too."""
        self._moments[key] = moments
        self._moments.move_to_end(key)
        while len(self._moments) > self._keys:
            self._moments.popitem(last=False)

    def items(self) -> tuple[tuple[str, Moments], ...]:
        """All that is known, for people and for Redis."""
        return tuple(self._moments.items())


def key_of(request: Request) -> str:
    """Under what a request's length is learned: its route, or else requests of its size. Never the same for both."""
    if request.route is not None:
        return f"route:{request.route}"
    return f"size:{_magnitude(request.max_tokens)}:{_magnitude(prompt_tokens(request))}"


def prompt_tokens(request: Request) -> int:
    """About how many tokens the prompt has: four characters make one, and each turn of a chat has a frame."""
    if request.prompt_token_ids is not None:
        return len(request.prompt_token_ids)
    if request.messages is not None:
        return sum(4 + (len(turn.content) + 3) // 4 for turn in request.messages)
    return (len(request.prompt or "") + 3) // 4


def weight(request: Request) -> int:
    """The most tokens the request can come to hold in the engine's memory."""
    return prompt_tokens(request) + request.max_tokens * request.n


def predict(request: Request, lengths: Lengths) -> Prediction:
    """New tokens to expect of a request. One that cannot stop before its limit runs to it."""
    fixed = request.ignore_eos and not (request.stop or request.stop_token_ids)
    if fixed or request.min_tokens == request.max_tokens:
        return Prediction(float(request.max_tokens), 0.0)
    learned = lengths.predict(key_of(request), request.max_tokens)
    return learned._replace(length=max(float(request.min_tokens), learned.length))


def _magnitude(count: int) -> int:
    """In steps of two: the power of two at or above."""
    return max(0, count - 1).bit_length()
