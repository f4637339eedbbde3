"""The learned wait: whether a batch that is not full waits for one more. Pure: no clock, no I/O; the simulator runs it
too.

A moment's wait costs everybody who waits that moment, and everybody who comes while the batch runs as well. It gains
when somebody comes: that one rides along instead of waiting for the batch's end, and the others ride a little longer
for it. So it is worth its while only where arrivals are likelier than usual: shortly after others of the same clump.
Of a clump the next seldom comes alone, so what those who follow will gain counts with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

from .hazards import Hazards, Kind, Stretch

__all__ = ["Decision", "Hazards", "Kind", "wait_on"]

LONGEST_SHARE = 0.5
"""No wait is longer than this share of the time the batch will take."""

DEVIATIONS = 2.0
"""Of `ev` arrivals seen, ev - 2 * sqrt(ev) are counted on."""

LATER_SHARE = 0.5
"""Those who come while the batch runs wait for its end. A wait delays them too, but about half of them would have
waited for others then. Chosen by simulation, where all from a quarter to a half does as well.
"""


FOLLOWERS = 3
"""How many more than the next are looked ahead to. Without them a batch leaves in the first long gap of a clump; more
than three change nothing (by simulation)."""


class Decision(NamedTuple):
    """Whether to wait; if so, after how many ms to ask again unless somebody comes before; and why, for people."""

    wait: bool
    look_in_ms: float
    reason: str


def wait_on(  # noqa: PLR0913 - each is one fact of the moment
    n: int,
    u_ms: float,
    *,
    kind: Kind,
    size: int,
    tau: Callable[[int], float],
    hazards: Hazards,
    waited_ms: float,
    cap_ms: float | None,
    since_arrival_ms: float | None = None,
) -> Decision:
    """Whether `n` rows, of `size` at most, wait for one more, `u_ms` after the last event, which was of this `kind`.

    `tau(n)` is the time that a batch of n takes, ms. `waited_ms` is how long this batch has been held open already:
    since the engine is free and somebody waits. `cap_ms` is how much longer the oldest may wait, None without a limit.
    `since_arrival_ms` tells, after the end of a batch, how long ago the newest came: it may belong to a clump.
    """
    if n >= size:
        return Decision(False, 0.0, "leaves: full")
    time_ms = tau(n)
    left_ms = LONGEST_SHARE * time_ms - waited_ms
    if cap_ms is not None and cap_ms <= 0:
        return Decision(False, 0.0, "leaves: the oldest has waited as long as is allowed")
    if left_ms <= 0:
        return Decision(False, 0.0, f"leaves: has waited {waited_ms:.0f} ms, half of the {time_ms:.0f} ms it will take")
    gain_ms = _gain_ms(n, tau)
    if gain_ms <= 0:
        return Decision(False, 0.0, "leaves: one more would cost the others more than it gains")
    cost = _cost(n, tau, hazards)
    most_ms = left_ms if cap_ms is None else min(left_ms, cap_ms)
    gain_ms += _followers_gain_ms(n, size, tau, hazards, most_ms)
    best = _best(hazards.ahead(u_ms, kind), most_ms, gain_ms, cost)
    if kind == "completion" and since_arrival_ms is not None:
        best = max(best, _best(hazards.ahead(since_arrival_ms, "arrival"), most_ms, gain_ms, cost))
    why = f"waiting {best.lasts_ms:.1f} ms gains {best.gain_ms:.1f} ms, {u_ms:.1f} ms after {_THE[kind]}"
    if best.gain_ms <= 0:
        return Decision(False, 0.0, f"leaves: no wait pays, {u_ms:.1f} ms after {_THE[kind]}")
    return Decision(True, best.lasts_ms, "waits: " + why)


def _gain_ms(n: int, tau: Callable[[int], float]) -> float:
    """What is gained when one more joins `n`: it does not wait for their end, and they ride a little longer."""
    return tau(n) - n * (tau(n + 1) - tau(n))


def _cost(n: int, tau: Callable[[int], float], hazards: Hazards) -> float:
    """What each ms costs in which `n` wait, in ms of waiting: theirs, and that of those who come while they ride."""
    return n + LATER_SHARE * hazards.per_ms() * tau(n)


def _followers_gain_ms(n: int, size: int, tau: Callable[[int], float], hazards: Hazards, most_ms: float) -> float:
    """What those will gain who follow the next, as it is expected when that one comes."""
    later_ms = 0.0
    for k in range(min(size - 1, n + FOLLOWERS), n, -1):
        gain_ms = _gain_ms(k, tau) + later_ms
        later_ms = _best(hazards.ahead(0.0, "arrival"), most_ms, gain_ms, _cost(k, tau, hazards)).gain_ms
    return later_ms


class _Wait(NamedTuple):
    gain_ms: float
    lasts_ms: float


def _best(ahead: Iterable[Stretch], most_ms: float, gain_ms: float, cost: float) -> _Wait:
    """The wait, up to `most_ms`, that gains most: somebody who comes gains `gain_ms`, each ms of waiting costs `cost`.

    It ends early when somebody comes. The chance of that is taken at the lower end of what the arrivals seen allow.
    """
    best = _Wait(0.0, 0.0)
    alive, waited_ms, elapsed_ms, seen = 1.0, 0.0, 0.0, 0.0
    for stretch in ahead:
        lasts_ms = min(stretch.lasts_ms, most_ms - elapsed_ms)
        comes = 1 - math.exp(-stretch.per_ms * lasts_ms)
        waited_ms += alive * (comes / stretch.per_ms if stretch.per_ms > 0 else lasts_ms)
        alive *= 1 - comes
        elapsed_ms += lasts_ms
        seen += stretch.arrivals
        sure = 1 - DEVIATIONS / math.sqrt(seen) if seen > DEVIATIONS**2 else 0.0
        gained = sure * (1 - alive) * gain_ms - waited_ms * cost
        if gained > best.gain_ms:
            best = _Wait(gained, elapsed_ms)
        if elapsed_ms >= most_ms or waited_ms * cost >= gain_ms - best.gain_ms:
            break  # no arrival can make up for it any more
    return best


_THE: dict[Kind, str] = {"arrival": "the last arrival", "completion": "the last batch's end"}
