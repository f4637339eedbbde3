"""What each run of neighbours costs, among waiting rows in the order of predicted length. Pure: no clock, no I/O.

A batch costs the time it takes. It may also cost the rows that stay: where it is cut out of their middle, what is left
on its two sides no longer fills batches of rows alike. Both count here.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from busload_shared.curve import ServiceCurve

TOKENS_ONLY = ServiceCurve(overhead_ms=0.0, prompt_ms=0.0, step_ms=1.0, token_ms=0.0)
"""What is assumed before a curve is learned: the longest row decides."""

LIKENESS = 6
"""How much a batch of rows alike is preferred to one that is merely due: the power of its efficiency in the score."""

HEAD_START = 0.1
"""What a batch of rows that have just come scores, as a share of its time waited."""

SHARPNESS = 3.0
"""Over the deviation of predictions: the power of the norm that stands for the longest of a run. 1.6 gives what is to
be expected of it; a sharper one mixes less, and chooses better (by simulation)."""

SURE = 0.05
"""Predictions whose logarithms deviate by less are taken as they are: the longest is the longest predicted."""


class Waiter(NamedTuple):
    """A waiting row: arrival in Unix ms, the estimated tokens of its prompt, its predicted new tokens, its weight (the
    most tokens it can come to hold, prompt + max_tokens * n), and by how much the logarithm of the prediction errs."""

    arrival_ms: float
    prompt_tokens: int
    length: float
    weight: int
    spread: float = 0.0


class _Sums(NamedTuple):
    """Of rows that would ride together: how many, their waiting, their tokens, the time that their tokens take whoever
    rides along, and what their batch costs: all of its time, and of others' time what it adds to that."""

    rows: int
    waited_ms: float
    tokens: float
    shared_ms: float
    cost_ms: float


class Runs:
    """A run is written first, end: the rows from `first` on, before `end`."""

    def __init__(
        self,
        rows: Sequence[Waiter],
        *,
        now_ms: float,
        size: int,
        max_tokens: int | None,
        curve: ServiceCurve | None,
        last_ones: bool,
    ) -> None:
        """`rows` are sorted by length, shortest first. `last_ones` where nobody seems to come any more: then a batch
        that stays half empty costs as well. Else newcomers will fill it."""
        self._rows, self._now_ms, self._size, self._max_tokens = rows, now_ms, size, max_tokens
        self._curve = curve or TOKENS_ONLY
        self._last_ones = last_ones
        spread = math.sqrt(sum(row.spread**2 for row in rows) / max(1, len(rows)))
        self._power = max(1.0, SHARPNESS / spread) if spread > SURE else math.inf
        self._lengths = [row.length for row in rows]
        self._top = max(self._lengths, default=1.0)
        self._weights = list(accumulate((row.weight for row in rows), initial=0))
        self._waited = list(accumulate((now_ms - row.arrival_ms for row in rows), initial=0.0))
        self._tokens = list(accumulate(self._lengths, initial=0.0))
        self._shared = list(accumulate(map(self._shared_ms, rows), initial=0.0))
        self._powers = list(accumulate(map(self._raised, self._lengths), initial=0.0))
        self._first = [self._first_of(end, end, size, 0) for end in range(len(rows) + 1)]
        self._plan = self._planned()
        self._cuts = self._planned_cuts()

    def all(self) -> Iterator[tuple[int, int]]:
        """Those that can take no more to their right; each takes all that it can to its left."""
        for end in range(1, len(self._rows) + 1):
            first = self._first[end]
            if end == len(self._rows) or self._first[end + 1] > first:
                yield first, end

    def score(self, first: int, end: int) -> float:
        """The higher, the better that this run rides now: see `_score`."""
        sums = _Sums(
            end - first,
            self._waited[end] - self._waited[first],
            self._tokens[end] - self._tokens[first],
            self._shared[end] - self._shared[first],
            self.time_ms(first, end) + max(0.0, self.added_ms(first, end)),
        )
        return self._score(sums)

    def time_ms(self, first: int, end: int) -> float:
        """How long the run is expected to take."""
        return self._longest_ms(first, end) + self._shared[end] - self._shared[first]

    def added_ms(self, first: int, end: int) -> float:
        """How much longer all rows take in batches as full as can be if this run is one of them. Where a heavy row kept
        a batch small, this is on the high side: that it may fill once the heavy one has left is not looked at."""
        return self._longest_ms(first, end) + self._rest_ms(first, end) - self._plan[-1]

    def score_of(self, rows: Sequence[Waiter]) -> float:
        """The same for any rows, with nothing for what it costs those who stay."""
        lengths = [row.length for row in rows]
        waited_ms = sum(self._now_ms - row.arrival_ms for row in rows)
        shared_ms = sum(map(self._shared_ms, rows))
        time_ms = self._own_ms(max(lengths), sum(map(self._raised, lengths))) + shared_ms
        return self._score(_Sums(len(rows), waited_ms, sum(lengths), shared_ms, time_ms))

    def _score(self, sums: _Sums) -> float:
        """The response ratio, times a power of the efficiency.

        The response ratio, mean wait by cost, lets short batches go first until others have waited in proportion to
        theirs. The efficiency is what these rows would cost in full batches of their like, by what they cost in this
        one: 1 for a full batch of rows all alike that leaves the others in full batches too.
        """
        c, cost_ms = self._curve, max(1e-9, sums.cost_ms)
        alike = 1.0 if math.isinf(self._power) else self._size ** (1 / self._power)
        fair_ms = (c.overhead_ms * sums.rows + c.step_ms * sums.tokens * alike) / self._size + sums.shared_ms
        waited_ms = max(0.0, sums.waited_ms) / sums.rows
        return float((waited_ms / cost_ms + HEAD_START) * (fair_ms / cost_ms) ** LIKENESS)

    def _shared_ms(self, row: Waiter) -> float:
        return self._curve.prompt_ms * row.prompt_tokens + self._curve.token_ms * row.length

    def _raised(self, length: float) -> float:
        return 0.0 if math.isinf(self._power) else float((length / self._top) ** self._power)

    def _longest_ms(self, first: int, end: int) -> float:
        return self._own_ms(self._lengths[end - 1], self._powers[end] - self._powers[first])

    def _own_ms(self, longest: float, powers: float) -> float:
        """The time of a batch but for what each row's tokens take. With lengths that are uncertain, the longest is not
        the one that was predicted so: the more rows come near it, the longer it will be."""
        if not math.isinf(self._power):
            longest = max(longest, self._top * powers ** (1 / self._power))
        return self._curve.overhead_ms + self._curve.step_ms * longest

    def _first_of(self, right: int, end: int, seats: int, weight: int) -> int:
        """Where a batch begins that holds the rows before `end` as far as `seats` and the weight allow; `weight` is
        taken already. One row at least where nothing is taken yet (`right` is `end`)."""
        first = max(0, end - seats)
        if self._max_tokens is not None:
            least = self._weights[end] + weight - self._max_tokens
            first = max(first, bisect_left(self._weights, least, 0, end + 1))
        return min(first, end - 1) if right == end and end else first

    def _planned(self) -> list[float]:
        """For each `end`: the time of the rows before it in batches as full as can be, the longest together."""
        plan = [0.0]
        for end in range(1, len(self._rows) + 1):
            first = self._first[end]
            powers = self._powers[end] - self._powers[first]
            plan.append(plan[first] + self._counted_ms(first, end, powers, end - first))
        return plan

    def _counted_ms(self, first: int, end: int, powers: float, rows: int) -> float:
        """The time of a planned batch, whose longest row is the one before `end`. One that is not full yet does not
        count unless nobody comes any more."""
        if first == 0 and rows < self._size and not self._last_ones:
            return 0.0
        return self._own_ms(self._lengths[end - 1], powers)

    def _planned_cuts(self) -> list[int]:
        """Where the batches of the plan for all rows meet, in ascending order."""
        cuts = [len(self._rows)]
        while cuts[-1] > 0:
            cuts.append(self._first[cuts[-1]])
        return cuts[::-1]

    def _rest_ms(self, first: int, end: int) -> float:
        """The time of those who stay when this run leaves: planned batches above it, one that bridges the gap, and
        planned ones below."""
        cut = self._cuts[bisect_left(self._cuts, end)]
        above_ms = self._plan[-1] - self._plan[cut]
        if cut == end:
            return above_ms + self._plan[first]
        seats, weight = self._size - (cut - end), self._weights[cut] - self._weights[end]
        low = min(first, self._first_of(cut, first, seats, weight))
        powers = self._powers[cut] - self._powers[end] + self._powers[first] - self._powers[low]
        return above_ms + self._counted_ms(low, cut, powers, cut - end + first - low) + self._plan[low]
