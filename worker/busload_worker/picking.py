"""Which rows of a backlog ride together: those of like length. Pure: no clock, no I/O; the simulator runs it too."""

from __future__ import annotations

from collections.abc import Sequence

from busload_shared.curve import ServiceCurve

from .runs import Runs, Waiter

__all__ = ["PATIENCE_BATCHES", "Waiter", "pick"]

PATIENCE_BATCHES = 12.0
"""Once the oldest has waited for so many mean batches, only batches with it count: nobody is passed over for ever."""


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
    are ordered by predicted length, and of all runs of neighbours in that order the best is taken, see `Runs`, or the
    oldest where none is better than they.
    `now_ms` is the same clock's as the arrivals. `mean_batch_ms` is a running mean of this worker's batches.
    """
    if len(window) <= size:
        return _oldest_that_fit(window, size, max_tokens)
    rows = sorted(range(len(window)), key=lambda i: window[i].length)
    must, last_ones = None, False
    if mean_batch_ms is not None:
        must = rows.index(0) if now_ms - window[0].arrival_ms > PATIENCE_BATCHES * mean_batch_ms else None
        last_ones = now_ms - window[-1].arrival_ms > mean_batch_ms
    runs = Runs(
        [window[i] for i in rows],
        now_ms=now_ms,
        size=size,
        max_tokens=max_tokens,
        curve=curve,
        last_ones=last_ones,
    )
    best = _oldest_that_fit(window, size, max_tokens)
    most = runs.score_of([window[i] for i in best])
    for first, end in runs.all():
        if must is None or first <= must < end:
            score = runs.score(first, end)
            if score > most:
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
