"""Which rows of a backlog ride together: those of like length. Pure: no clock, no I/O; the simulator runs it too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from busload_shared.curve import ServiceCurve

PATIENCE_BATCHES = 12.0
"""Once the oldest has waited for so many mean batches, only batches with it count: nobody is passed over for ever."""

TOKENS_ONLY = ServiceCurve(overhead_ms=0.0, prompt_ms=0.0, step_ms=1.0, token_ms=0.0)
"""What is assumed before a curve is learned: the longest row decides."""

LIKENESS = 4
"""How much a batch of rows alike is preferred to one that is merely due: the power of its efficiency in the score."""


class Waiter(NamedTuple):
    """A waiting row: arrival in Unix ms, the estimated tokens of its prompt, its predicted new tokens, and its weight:
    the most tokens it can come to hold, prompt + max_tokens * n."""

    arrival_ms: float
    prompt_tokens: int
    length: float
    weight: int


def pick(
    window: Sequence[Waiter],
    *,
    now_ms: float,
    size: int,
    max_tokens: int | None,
    curve: ServiceCurve | None,
    mean_batch_ms: float | None,
) -> list[int]:
    """Indexes, ascending, of the rows to claim out of `window`, the oldest waiting rows, oldest first.

    Without a backlog all that fit, oldest first: leaving somebody behind then gains nothing. Of a backlog, the rows
    are ordered by predicted length, and of all runs of neighbours in that order the best is taken, see `_Run.score`, or
    the oldest where none is better than they.
    `now_ms` is the same clock's as the arrivals. `mean_batch_ms` is a running mean of this worker's batches.
    """
    if len(window) <= size:
        return _oldest_that_fit(window, size, max_tokens)
    rows = sorted(range(len(window)), key=lambda i: window[i].length)
    guarded = mean_batch_ms is not None and now_ms - window[0].arrival_ms > PATIENCE_BATCHES * mean_batch_ms
    must = rows.index(0) if guarded else None
    best = oldest = _oldest_that_fit(window, size, max_tokens)
    most = _Run(now_ms, size, curve).of([window[i] for i in oldest])
    for first, end, score in _scores([window[i] for i in rows], _Run(now_ms, size, curve), size, max_tokens):
        if score > most and (must is None or first <= must < end):
            most, best = score, rows[first:end]
    return sorted(best)


def _oldest_that_fit(window: Sequence[Waiter], size: int, max_tokens: int | None) -> list[int]:
    if not window:
        return []
    weight, taken = window[0].weight, [0]
    for i in range(1, min(size, len(window))):
        weight += window[i].weight
        if max_tokens is not None and weight > max_tokens:
            break
        taken.append(i)
    return taken


def _scores(rows: Sequence[Waiter], run: _Run, size: int, max_tokens: int | None) -> Iterator[tuple[int, int, float]]:
    """Each run [first, end) of `rows`, shortest first, that can take no more to its right, and its score.

    One sweep: both ends only move to the right, and the sums move with them.
    """
    first = 0
    for end, row in enumerate(rows, start=1):
        run.add(row)
        while run.rows > size or (max_tokens is not None and run.weight > max_tokens and run.rows > 1):
            run.drop(rows[first])
            first += 1
        heavy = max_tokens is not None and end < len(rows) and run.weight + rows[end].weight > max_tokens
        if run.rows == size or end == len(rows) or heavy:
            yield first, end, run.score(longest=row.length)


class _Run:
    """The sums over rows that would ride together."""

    def __init__(self, now_ms: float, size: int, curve: ServiceCurve | None) -> None:
        self.rows = self.weight = 0
        self._now_ms, self._size = now_ms, size
        self._curve = curve or TOKENS_ONLY
        self._waited_ms, self._prompts, self._tokens = 0.0, 0, 0.0

    def of(self, rows: Sequence[Waiter]) -> float:
        """The score of these rows."""
        for row in rows:
            self.add(row)
        return self.score(longest=max(row.length for row in rows))

    def add(self, row: Waiter) -> None:
        self._move(row, 1)

    def drop(self, row: Waiter) -> None:
        self._move(row, -1)

    def _move(self, row: Waiter, sign: int) -> None:
        self.rows += sign
        self.weight += sign * row.weight
        self._waited_ms += sign * (self._now_ms - row.arrival_ms)
        self._prompts += sign * row.prompt_tokens
        self._tokens += sign * row.length

    def score(self, *, longest: float) -> float:
        """The response ratio, times a power of the efficiency.

        The response ratio, (mean wait + time) / time, lets short batches go first until others have waited in
        proportion to theirs. The efficiency is the time that these rows would cost in full batches of their like, by
        the time they cost in this one: 1 for a full batch of rows all alike.
        """
        c, tokens = self._curve, self._tokens
        shared = c.prompt_ms * self._prompts + c.token_ms * tokens
        time_ms = max(1e-9, c.overhead_ms + c.step_ms * longest + shared)
        fair_ms = (c.overhead_ms * self.rows + c.step_ms * tokens) / self._size + shared
        waited_ms = max(0.0, self._waited_ms) / self.rows
        return float((waited_ms + time_ms) / time_ms * (fair_ms / time_ms) ** LIKENESS)
