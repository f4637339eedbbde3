"""How many workers there should be. Pure: no clock, no I/O, all memory handed in and handed back."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from .batch_time import BatchTime, blended
from .rules import Rules
from .sight import Sight

BUSY = 0.8
"""Share of the time in which workers may run on average. Above it waits grow quickly. A rate that may be chance is not
counted: if it is none, there will soon be a backlog, and that counts."""

BUSY_AFTER_LESS = 0.7
"""Workers are taken away only if those left are no busier than this: a rate that trembles changes nothing."""

Why = Literal["first", "more", "late", "fewer", "idle", "quiet", "enough"]
"""`quiet`: fewer would do, and the quiet time is not over."""


@dataclass(frozen=True, slots=True)
class Memory:
    """What one decision must know of those before; times in s on the Redis clock.

    `asked` workers are wanted, since `changed_s`. `needs` are (time, workers that would do) over the quiet time.
    `busy_s` is when there last was something to do, `late_since_s` since when the oldest has been over the target.
    `batch` outlives the workers that told it.
    """

    asked: int
    changed_s: float
    busy_s: float
    needs: tuple[tuple[float, int], ...] = ()
    late_since_s: float | None = None
    batch: BatchTime | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """So many workers, and why. `need` is what the figures ask for, within the bounds, before any patience."""

    workers: int
    need: int
    why: Why
    memory: Memory


def decide(sight: Sight, rules: Rules, memory: Memory | None) -> Decision:
    """The first time, without memory, the workers that are there are the number to start from."""
    if memory is None:
        memory = Memory(sight.ready + sight.coming, sight.at_s, sight.at_s)
    memory = _noted(sight, rules, memory)
    surely_per_s = max(0.0, sight.arrivals_per_s - sight.arrivals_sd)
    need = _within(rules, needed(sight, rules, memory, arrivals_per_s=surely_per_s / BUSY))
    relaxed = needed(sight, rules, memory, arrivals_per_s=sight.arrivals_per_s / BUSY_AFTER_LESS)
    would_do = _within(rules, max(need, relaxed))
    if memory.late_since_s is not None:
        would_do = max(would_do, _within(rules, memory.asked))
    since = sight.at_s - rules.quiet_s
    kept = tuple((at_s, n) for at_s, n in memory.needs if at_s >= since)
    memory = replace(memory, needs=(*_unbeaten(kept, would_do), (sight.at_s, would_do)))
    wanted, why = _wanted(sight, rules, memory, need)
    if wanted != memory.asked:
        memory = replace(memory, asked=wanted, changed_s=sight.at_s)
    return Decision(wanted, need, why, memory)


def needed(sight: Sight, rules: Rules, memory: Memory, *, arrivals_per_s: float) -> int:
    """Workers that keep the target: for so many arrivals if workers never paused, and for what waits.

    While nobody has told how long a batch takes, one is enough to learn it, and those that are there stay. None once
    there has been nothing to do for the idle time.
    """
    is_awake = memory.asked > 0 and sight.at_s - memory.busy_s < rules.idle_s
    if not is_awake and not _has_work(sight):
        return 0
    batch = memory.batch
    if batch is None:
        return max(1, memory.asked)
    one_per_s = batch.rows_per_s(rules.target_s)
    ready_per_s = sight.ready * one_per_s
    left = min(sight.waiting, sight.waiting - (ready_per_s - sight.arrivals_per_s) * rules.start_s)
    per_s = max(arrivals_per_s, max(0.0, left) / patience_s(batch, rules))
    return max(1, math.ceil(per_s / one_per_s - 1e-9))


def patience_s(batch: BatchTime, rules: Rules) -> float:
    """How long a request may wait: the target less one batch, and never less than a quarter of the target."""
    return max(rules.target_s / 4, rules.target_s - batch.seconds(batch.rows_within(rules.target_s)))


def _has_work(sight: Sight) -> bool:
    return sight.waiting + sight.inflight > 0


def _noted(sight: Sight, rules: Rules, memory: Memory) -> Memory:
    is_late = sight.waiting > 0 and sight.oldest_s > rules.target_s
    since = memory.late_since_s if memory.late_since_s is not None else sight.at_s
    return replace(
        memory,
        busy_s=sight.at_s if _has_work(sight) else memory.busy_s,
        late_since_s=since if is_late else None,
        batch=blended(memory.batch, sight.batch),
    )


def _within(rules: Rules, workers: int) -> int:
    return max(rules.min_workers, min(rules.max_workers, workers))


def _unbeaten(needs: tuple[tuple[float, int], ...], newest: int) -> tuple[tuple[float, int], ...]:
    """Those above the newest: the others can never again be the highest."""
    return tuple((at_s, n) for at_s, n in needs if n > newest)


def _wanted(sight: Sight, rules: Rules, memory: Memory, need: int) -> tuple[int, Why]:
    asked = memory.asked
    if need > asked:
        return need, "first" if asked == 0 else "more"
    if _is_wrong(sight, rules, memory) and asked < rules.max_workers:
        return asked + 1, "late"
    highest = max(n for _, n in memory.needs)
    if asked > rules.max_workers:
        return max(rules.max_workers, rules.fewer(asked)), "fewer"
    if highest >= asked:
        return asked, "enough"
    if sight.at_s - memory.changed_s < rules.quiet_s:
        return asked, "quiet"
    fewer = max(highest, rules.fewer(asked))
    return fewer, "idle" if fewer == 0 else "fewer"


def _is_wrong(sight: Sight, rules: Rules, memory: Memory) -> bool:
    """Requests have been late for longer than a new worker takes, though all that were asked for are ready: workers do
    less than their figures promise."""
    if memory.late_since_s is None or sight.ready < memory.asked:
        return False
    since = max(memory.late_since_s, memory.changed_s)
    return sight.at_s - since >= rules.start_s + rules.target_s
