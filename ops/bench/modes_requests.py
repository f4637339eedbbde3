"""The requests of the modes benchmark: answers of known length, and what a scheduler may know of it. Pure and seeded.

A request carries its true length in `seed`, which greedy sampling does not use; `modes_endings` ends the answer there.
What the worker's predictions see is another matter: see `Hint`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

Hint = Literal["oracle", "noisy", "learned", "none"]
"""`oracle`: max_tokens is the length. `noisy`: the route says the length, with an error of 0.5 in its logarithm.
`learned`: the route is one of four tasks, each with its own law. `none`: nothing tells. But for the oracle all
max_tokens are the same."""

LOG_ERROR = 0.5
BUCKETS_PER_OCTAVE = 4
"""Routes of the noisy hint: so many for each doubling of it."""

HIDDEN_MAX_TOKENS = 768
TASKS = (("label", -1.1), ("summary", -0.25), ("answer", 0.25), ("article", 1.1))
"""Four tasks, equally many requests each, and where their lengths' logarithms lie, in deviations of all."""

WITHIN_TASK = 0.6
"""The deviation of the logarithm inside a task, as a share of that of all: with the tasks' places about 1 in all."""

WORDS = (
    "river",
    "city",
    "garden",
    "planet",
    "music",
    "winter",
    "history",
    "bread",
    "ocean",
    "train",
    "letter",
    "glass",
)


@dataclass(frozen=True, slots=True)
class Law:
    """Lengths: a median in tokens, a deviation of the logarithm, cut to 2 … `most`."""

    median: float
    sigma: float
    most: int = 400

    def tokens(self, deviations: float) -> int:
        """The length that lies so many deviations from the median."""
        return max(2, min(self.most, round(self.median * math.exp(self.sigma * deviations))))


@dataclass(frozen=True, slots=True)
class Job:
    """One answer to be made: its place, its prompt, its true length in tokens, and what a route could tell."""

    place: int
    prompt: str
    tokens: int
    task: str
    noisy_route: str

    def request(self, run: str, hint: Hint) -> dict[str, Any]:
        """As a producer writes it. `run` makes the id its own."""
        seen: dict[str, Any] = {"max_tokens": HIDDEN_MAX_TOKENS}
        if hint == "oracle":
            seen = {"max_tokens": self.tokens, "ignore_eos": True}
        elif hint != "none":
            seen["route"] = self.route(hint)
        fixed = {"prompt": self.prompt, "temperature": 0.0, "seed": self.tokens}
        return {"id": f"{run}-{self.place}", **fixed, **seen}

    def route(self, hint: Hint) -> str:
        """Under what the length is learned."""
        return self.noisy_route if hint == "noisy" else self.task


def jobs(law: Law, count: int, seed: int) -> list[Job]:
    """So many answers by this law. The tasks are a mixture of laws, which together are close to it."""
    rng, made = Random(seed), []
    for place in range(count):
        task, centre = rng.choice(TASKS)
        tokens = law.tokens(centre + WITHIN_TASK * rng.gauss(0.0, 1.0))
        guess = tokens * math.exp(LOG_ERROR * rng.gauss(0.0, 1.0))
        bucket = round(BUCKETS_PER_OCTAVE * math.log2(guess))
        words = " ".join(rng.choice(WORDS) for _ in range(rng.randint(2, 10)))
        made.append(Job(place, f"Write about {words}:", tokens, task, f"about-{bucket}"))
    return made


def arrivals_s(count: int, per_s: float, seed: int) -> list[float]:
    """When each comes, seconds from the start: a Poisson process."""
    rng, at, times = Random(seed), 0.0, []
    for _ in range(count):
        at += rng.expovariate(per_s)
        times.append(at)
    return times


def log_deviation(values: Sequence[float]) -> float:
    """The deviation of their natural logarithms."""
    logs = [math.log(value) for value in values]
    mean = sum(logs) / len(logs)
    return math.sqrt(sum((log - mean) ** 2 for log in logs) / len(logs))
