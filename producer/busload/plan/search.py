"""Finds, for each batch size, order and wait, the fewest workers that meet the target."""

from __future__ import annotations

import math
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace

from busload_worker.simulation import Arrivals, Backlog, Order, Outcome, Scenario, Wait, simulate

ROUNDS = 12
"""Batches that each worker runs at least, if it is always busy: fewer would not show a queue that grows."""

ROUNDS_SATURATED = 200
"""Batches run to learn what one worker can do at most."""

MOST_REQUESTS = 400_000


@dataclass(frozen=True, slots=True)
class Goal:
    """What is asked: requests a second that must be answered within `p99_ms`, by `most_workers` at most."""

    per_s: float
    p99_ms: float
    most_workers: int


@dataclass(frozen=True, slots=True)
class Choice:
    """Settings that a plan may have."""

    size: int
    order: Order
    wait_ms: Wait


@dataclass(frozen=True, slots=True)
class Plan:
    """A choice with so many workers, and how it does. `met` when the target is."""

    choice: Choice
    workers: int
    outcome: Outcome
    met: bool


def choices(sizes: Sequence[int], orders: Sequence[Order], waits: Sequence[Wait]) -> list[Choice]:
    """All of them. A batch of one has nobody to wait for and nobody to be like."""
    return [
        Choice(size, order, wait)
        for size in sizes
        for order in (orders if size > 1 else orders[:1])
        for wait in (waits if size > 1 else waits[:1])
    ]


def plans(base: Scenario, goal: Goal, of: Sequence[Choice], tell: Callable[[int, int], None]) -> list[Plan]:
    """The best plan of each choice, the cheapest first; those that do not meet the target last."""
    found: list[Plan] = []
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        jobs = [pool.submit(fewest_workers, base, goal, choice) for choice in of]
        for job in as_completed(jobs):
            found.append(job.result())
            tell(len(found), len(of))
    place = {choice: i for i, choice in enumerate(of)}
    return sorted(found, key=lambda plan: (*_cost(plan), place[plan.choice]))


def _cost(plan: Plan) -> tuple[bool, int, int]:
    """Fewest workers first, then the p99 in steps of 2 %: less is no difference."""
    return not plan.met, plan.workers if plan.met else 0, round(math.log(max(1e-9, plan.outcome.p99_ms)) / 0.02)


def fewest_workers(base: Scenario, goal: Goal, choice: Choice) -> Plan:
    """The plan of one choice with the fewest workers that meet the target; with the most there may be if none do.

    Fewer than what full batches need are not tried: their queue would grow, even if a short run does not show it.
    """
    least = math.ceil(goal.per_s / capacity_per_s(base, choice))
    if least > goal.most_workers:
        return _try(base, goal, choice, goal.most_workers, may_meet=False)
    below, high = least - 1, least
    plan = _try(base, goal, choice, high)
    while not plan.met and high < goal.most_workers:
        below, high = high, min(goal.most_workers, high + max(1, high // 4))
        plan = _try(base, goal, choice, high)
    while plan.met and high - below > max(1, high // 200):
        middle = (below + high) // 2
        fewer = _try(base, goal, choice, middle)
        if fewer.met:
            plan, high = fewer, middle
        else:
            below = middle
    return plan


def capacity_per_s(base: Scenario, choice: Choice) -> float:
    """What one worker does while there is always a backlog."""
    requests = 4 * choice.size + ROUNDS_SATURATED * choice.size
    backlog = replace(base, arrivals=Backlog(4 * choice.size), requests=requests, size=choice.size, order=choice.order)
    return simulate(replace(backlog, workers=1, wait_ms=0.0)).per_s


def _try(base: Scenario, goal: Goal, choice: Choice, workers: int, *, may_meet: bool = True) -> Plan:
    outcome = simulate(_scenario(base, choice, workers=workers))
    return Plan(choice, workers, outcome, may_meet and outcome.p99_ms <= goal.p99_ms)


def _scenario(base: Scenario, choice: Choice, *, workers: int) -> Scenario:
    requests = min(MOST_REQUESTS, max(base.requests, ROUNDS * choice.size * workers))
    return replace(
        base, size=choice.size, order=choice.order, wait_ms=choice.wait_ms, workers=workers, requests=requests
    )


def at_loads(base: Scenario, plan: Plan, arrivals: Sequence[Arrivals]) -> Iterator[Outcome]:
    """How the plan does when requests come otherwise."""
    for law in arrivals:
        yield simulate(_scenario(replace(base, arrivals=law), plan.choice, workers=plan.workers))


def front(found: Sequence[Plan]) -> list[Plan]:
    """Those that no other beats in both throughput of a worker and p99."""
    best: list[Plan] = []
    for plan in sorted(found, key=lambda plan: (plan.outcome.p99_ms, -plan.outcome.per_s / plan.workers)):
        if not best or plan.outcome.per_s / plan.workers > best[-1].outcome.per_s / best[-1].workers:
            best.append(plan)
    return best
