"""When to look again while a batch fills. Pure: no clock, no I/O; the claim itself is decided inside Redis."""

from __future__ import annotations

from busload_shared.replies import NotYet

LEAST_PAUSE_MS = 1.0
"""A look costs Redis some tens of microseconds; while a batch fills, looking more often than this gains nothing."""

LONGEST_PAUSE_MS = 500.0
"""However long the wait, suspects of a dead worker and a stop are noticed within this."""


def pause_ms(look: NotYet, before: NotYet | None, *, max_batch_size: int, max_wait_ms: float) -> float:
    """Milliseconds until the next look is worth its cost: the oldest is due, the batch may be full, or an eighth
    of the wait has passed. `before` is the look before this one, from which the arrival rate is read."""
    pause = min(LONGEST_PAUSE_MS, max_wait_ms / 8)
    filling = fill_ms(look, before, max_batch_size=max_batch_size)
    if filling is not None:
        pause = min(pause, filling)
    pause = max(LEAST_PAUSE_MS, pause)
    return pause if look.due_in_ms is None else min(pause, look.due_in_ms)


def fill_ms(look: NotYet, before: NotYet | None, *, max_batch_size: int) -> float | None:
    """Milliseconds until the batch is full at the rate seen between two looks; None when nobody came."""
    if before is None or look.depth <= before.depth or look.now_ms <= before.now_ms:
        return None
    per_ms = (look.depth - before.depth) / (look.now_ms - before.now_ms)
    return (max_batch_size - look.depth) / per_ms


def backoff_s(failures: int, *, longest_s: float = 30.0) -> float:
    """Seconds before the engine's next start after `failures` deaths in a row: ¼, ½, 1, … up to `longest_s`."""
    return min(longest_s, 0.25 * 2.0 ** min(max(0, failures - 1), 16))
