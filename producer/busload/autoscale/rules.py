"""What the operator wants of the number of workers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from busload_shared.errors import SettingsInvalid


@dataclass(frozen=True, slots=True)
class Rules:
    """`target_s` from arrival to answer. With `min_workers` 0 the last worker goes `idle_s` after the last request.

    Workers are taken away after `quiet_s` in which fewer would have done, each time `step` of them, a share, and one at
    least. A new one is ready after about `start_s`.
    """

    target_s: float
    min_workers: int
    max_workers: int
    quiet_s: float
    idle_s: float
    step: float
    start_s: float

    def __post_init__(self) -> None:
        """Raises SettingsInvalid."""
        if not 0 <= self.min_workers <= self.max_workers or self.max_workers < 1:
            raise SettingsInvalid(
                f"between {self.min_workers} and {self.max_workers} workers is no range: "
                "--min-workers must be 0 or more, and no more than --max-workers"
            )
        if self.target_s <= 0 or not 0 < self.step <= 1 or min(self.quiet_s, self.idle_s, self.start_s) < 0:
            raise SettingsInvalid(
                "--target-s must be above 0, --step-percent within 1 to 100, and no other time below 0"
            )

    def fewer(self, workers: int) -> int:
        """What one step leaves of so many."""
        return max(0, workers - max(1, math.floor(workers * self.step)))
