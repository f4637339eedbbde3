"""What a worker whose wait is learned tells of it, for people."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, ConfigDict


class Hazard(BaseModel):
    """What was seen between `from_ms` and `to_ms` after an event: so many arrivals in so much waiting, ms. Both are
    decayed sums; their ratio is how likely the next is to come in each ms. `to_ms` is None for the last bin.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="ignore")

    from_ms: float
    to_ms: float | None
    arrivals: float
    waited_ms: float


class WaitInfo(BaseModel):
    """`reason` is why the last look at a batch that fills made it wait or leave, empty before the first. The tables
    hold what was learned of the next arrival after an arrival, and after the end of a batch."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="ignore")

    reason: str = ""
    after_arrival: tuple[Hazard, ...] = ()
    after_batch: tuple[Hazard, ...] = ()
