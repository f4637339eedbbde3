"""The wall clock steps by an hour, for a worker or for a process of producers."""

from __future__ import annotations

import random
from functools import partial

from tests.chaos.faults import Fault, begins, is_over
from tests.chaos.lab import Lab
from tests.chaos.ledger import Injected

HOUR_S = 3600


async def step(lab: Lab, dice: random.Random, injected: Injected, *, whose: str) -> None:
    """An hour ahead, an hour back, or right again."""
    clock = lab.fleet.clock if whose == "worker" else lab.clock
    seconds = dice.choice((-HOUR_S, 0, HOUR_S))
    begins(injected)
    clock.step(seconds)
    is_over(injected)
    injected.note = f"{seconds:+d} s"


FAULTS = [
    Fault("worker clock steps", partial(step, whose="worker")),
    Fault("producer clock steps", partial(step, whose="producers")),
]
