"""How long a worker's batch takes, by its rows, as far as its heartbeat tells."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from busload_shared.curve import ServiceCurve

if TYPE_CHECKING:
    from collections.abc import Sequence

SLACK = 1.25
"""Where the target is shorter than what batches take, they may be so much longer than a batch of one."""

OLD_WEIGHT = 0.95
"""Of the old figures at each look: what ten batches told may be chance."""


@dataclass(frozen=True, slots=True)
class BatchTime:
    """A batch of n rows takes `fixed_s + n * row_s`; a batch has `seats` rows at most."""

    fixed_s: float
    row_s: float
    seats: int

    def seconds(self, rows: int) -> float:
        """The time of a batch with so many rows."""
        return self.fixed_s + rows * self.row_s

    def rows_within(self, target_s: float) -> int:
        """Rows of the largest batch for which a request can wait for one batch and ride in the next within the target.

        A target that no batch can keep asks for no more than batches that take little longer than the shortest: smaller
        ones would cost many workers and gain nothing.
        """
        longest_s = max(target_s / 2, SLACK * self.seconds(1))
        return max(1, min(self.seats, int((longest_s - self.fixed_s) / self.row_s)))

    def rows_per_s(self, target_s: float) -> float:
        """What one worker does with batches of that size."""
        rows = self.rows_within(target_s)
        return rows / self.seconds(rows)


def batch_time(*, rows_per_s: float, mean_rows: float, seats: int, curve: ServiceCurve | None) -> BatchTime:
    """From a worker's recent rate at recent batches of `mean_rows`.

    The curve tells how much of a batch's time its rows share, if all their time is taken to be that of new tokens.
    Without a curve nothing is: fuller batches are not trusted to do more.
    """
    ran_s = mean_rows / rows_per_s
    least = 1e-6
    if curve is None or curve.step_ms + curve.token_ms <= 0:
        return BatchTime(0.0, max(least, ran_s / mean_rows), max(1, seats))
    overhead_s = min(ran_s, curve.overhead_ms / 1000)
    unit_s = (ran_s - overhead_s) / (curve.step_ms + mean_rows * curve.token_ms)
    return BatchTime(overhead_s + unit_s * curve.step_ms, max(least, unit_s * curve.token_ms), max(1, seats))


def mean_of(times: Sequence[BatchTime]) -> BatchTime | None:
    """The time of a worker like all of them; None of none."""
    if not times:
        return None
    seats = round(fmean(time.seats for time in times))
    return BatchTime(fmean(time.fixed_s for time in times), fmean(time.row_s for time in times), seats)


def blended(old: BatchTime | None, new: BatchTime | None) -> BatchTime | None:
    """The old figures, moved a little towards the new. Those without a fixed part were a first guess, and give way."""
    if new is None or old is None or not old.fixed_s:
        return new or old
    fixed_s = OLD_WEIGHT * old.fixed_s + (1 - OLD_WEIGHT) * new.fixed_s
    row_s = OLD_WEIGHT * old.row_s + (1 - OLD_WEIGHT) * new.row_s
    return BatchTime(fixed_s, row_s, new.seats)
