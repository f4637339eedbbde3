"""What a fault is, and all there are, by name."""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.chaos.lab import Lab
from tests.chaos.ledger import Injected

Inject = Callable[[Lab, random.Random, Injected], Awaitable[None]]


def always(lab: Lab) -> str:
    """No reason against it."""
    return ""


@dataclass(frozen=True, slots=True)
class Fault:
    """`inject` does the harm and notes when it began and when it was over; it returns when its victim is whole.

    `kills`: batches die by it. `everybody`: while it lasts nobody may be served, so it waits for its like, and its
    time is not counted against others. `unfit` says why it cannot be done here, or nothing. `weight` cards of each
    deck are its own.
    """

    name: str
    inject: Inject
    weight: int = 1
    kills: bool = False
    everybody: bool = False
    unfit: Callable[[Lab], str] = always


def begins(injected: Injected) -> None:
    """The harm is done from now on."""
    injected.began_at = time.monotonic()


def is_over(injected: Injected) -> None:
    """From now on nothing is in the way any more."""
    injected.ended_at = time.monotonic()
