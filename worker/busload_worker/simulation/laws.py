"""How long prompts and answers are, and what is predicted of an answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from ..lengths import Lengths, Prediction


class LengthLaw(Protocol):
    """Draws answers: (route, new tokens)."""

    def draw(self, rng: Random) -> tuple[str, int]:
        """One answer."""


@dataclass(frozen=True, slots=True)
class Lognormal:
    """Answers of about `median` tokens whose logarithm deviates by `sigma`, cut to 1 … `most`."""

    median: float
    sigma: float
    most: int = 2048
    route: str = "all"

    def draw(self, rng: Random) -> tuple[str, int]:
        length = self.median * math.exp(self.sigma * rng.gauss(0.0, 1.0))
        return self.route, max(1, min(self.most, round(length)))


@dataclass(frozen=True, slots=True)
class Exponential:
    """Answers that end with the same chance at every token."""

    mean: float
    route: str = "all"

    def draw(self, rng: Random) -> tuple[str, int]:
        return self.route, max(1, math.ceil(rng.expovariate(1 / self.mean)))


@dataclass(frozen=True, slots=True)
class Constant:
    """Answers all alike."""

    tokens: int
    route: str = "all"

    def draw(self, rng: Random) -> tuple[str, int]:  # noqa: ARG002 - nothing here is random
        return self.route, self.tokens


@dataclass(frozen=True, slots=True)
class History:
    """Answers as they were, drawn at random."""

    tokens: Sequence[int]
    route: str = "all"

    def draw(self, rng: Random) -> tuple[str, int]:
        return self.route, max(1, self.tokens[int(rng.random() * len(self.tokens))])


@dataclass(frozen=True, slots=True)
class Mixed:
    """Several laws, each with its share of the requests: routes."""

    parts: Sequence[tuple[float, LengthLaw]]

    def draw(self, rng: Random) -> tuple[str, int]:
        at = rng.random() * sum(share for share, _ in self.parts)
        for share, law in self.parts:
            at -= share
            if at < 0:
                return law.draw(rng)
        return self.parts[-1][1].draw(rng)


def bimodal(short: int, long: int, long_share: float) -> Mixed:
    """Short answers, and a share of long ones, on two routes."""
    return Mixed(((1 - long_share, Constant(short, "short")), (long_share, Constant(long, "long"))))


class Predictor(Protocol):
    """What one run's workers know of answers."""

    def predict(self, route: str, length: int, max_tokens: int) -> Prediction:
        """What to expect of a request that has just come."""

    def learn(self, route: str, length: int) -> None:
        """Its batch is over."""


class Predictions(Protocol):
    """How good predictions are."""

    def predictor(self, rng: Random) -> Predictor:
        """For one run."""


class _Noise:
    def __init__(self, log_error: float, rng: Random) -> None:
        self._log_error, self._rng = log_error, rng

    def predict(self, route: str, length: int, max_tokens: int) -> Prediction:  # noqa: ARG002 - it knows the answer
        if self._log_error <= 0:
            return Prediction(float(length), 0.0)
        guess = length * math.exp(self._log_error * self._rng.gauss(0.0, 1.0))
        return Prediction(max(1.0, min(float(max_tokens), guess)), self._log_error)

    def learn(self, route: str, length: int) -> None:
        """There is nothing to learn."""


@dataclass(frozen=True, slots=True)
class Noisy:
    """Right but for an error, whose size is known: its logarithm deviates by `log_error`. 0 is an oracle."""

    log_error: float

    def predictor(self, rng: Random) -> Predictor:
        return _Noise(self.log_error, rng)


ORACLE = Noisy(0.0)


class _Learner:
    def __init__(self) -> None:
        self._lengths = Lengths()

    def predict(self, route: str, length: int, max_tokens: int) -> Prediction:  # noqa: ARG002 - it must not know
        return self._lengths.predict(route, max_tokens)

    def learn(self, route: str, length: int) -> None:
        self._lengths.observe(route, length)


@dataclass(frozen=True, slots=True)
class Learned:
    """As workers do it: by route, from the answers so far."""

    def predictor(self, rng: Random) -> Predictor:  # noqa: ARG002 - nothing here is random
        return _Learner()
