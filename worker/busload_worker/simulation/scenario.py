"""What is simulated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from busload_shared.curve import ServiceCurve

from .arrivals import Arrivals
from .laws import ORACLE, LengthLaw, Predictions

Wait = float | Literal["auto"]
Order = Literal["fifo", "length"]
Release = Literal["row", "batch"]


@dataclass(frozen=True, slots=True)
class Scenario:
    """One queue and its workers. Times in ms.

    `wait_ms` counts from the oldest's arrival, infinity for batches that leave only full; `cap_ms` bounds the learned
    wait. The first `warm_up` of the requests, a share, are served and not counted.
    """

    curve: ServiceCurve
    arrivals: Arrivals
    lengths: LengthLaw
    size: int = 32
    wait_ms: Wait = 0.0
    order: Order = "fifo"
    release: Release = "row"
    predictions: Predictions = ORACLE
    workers: int = 1
    prompt_tokens: int = 0
    max_tokens: int = 2048
    max_batch_tokens: int | None = None
    cap_ms: float | None = None
    requests: int = 20_000
    warm_up: float = 0.1
    seed: int = 1
