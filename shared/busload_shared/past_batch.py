"""The batches that a worker ran last, for whoever watches. They stand in a key of their own, which only watchers read:
a worker's record is read by producers too, and must stay small."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, ConfigDict

PAST_BATCHES_KEPT = 16
"""So many a worker tells of, twice a second: whoever looks once a second misses none of up to 16 a second."""


class PastBatch(BaseModel):
    """`size` rows were claimed at `claimed_ms`, Unix ms on the Redis clock; it was over at `ended_ms`.

    `waited_ms` is how long its first row had waited for the claim, `run_ms` its time in the engine, `held_ms` the
    longest that an answer was kept back for the others (0 with release = row). `unanswered` rows went back to the
    queue, or to another worker.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="ignore")

    batch: str
    size: int
    trigger: str
    claimed_ms: float
    ended_ms: float
    waited_ms: float
    run_ms: float
    held_ms: float
    unanswered: int = 0


class PastBatches(BaseModel):
    """One worker's, the newest last."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="ignore")

    batches: tuple[PastBatch, ...] = ()
