"""The scenarios in which the simulator is compared with the real system: batches of some 60 to 500 ms, so that the
millisecond or two which Redis and Python take is small beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

from busload_shared.curve import ServiceCurve
from busload_worker.simulation import (
    ORACLE,
    Arrivals,
    Bursts,
    ClosedLoop,
    Constant,
    Learned,
    LengthLaw,
    Lognormal,
    Mixed,
    Poisson,
    Scenario,
    bimodal,
)
from busload_worker.simulation.scenario import Order, Release, Wait

CURVE = ServiceCurve(overhead_ms=40, prompt_ms=0.05, step_ms=1.6, token_ms=0.15)
PROMPT = 48
SIZE = 16
MAX_TOKENS = 400

LIKE = Constant(30)
SPREAD = Lognormal(30, 0.8, MAX_TOKENS)
TWO = bimodal(10, 120, 0.2)
ROUTES = Mixed([(3.0, Lognormal(10, 0.3, MAX_TOKENS, "a")), (1.0, Lognormal(120, 0.3, MAX_TOKENS, "b"))])


@dataclass(frozen=True, slots=True)
class Tape:
    """A length law that plays what was drawn before: the n-th to come has the n-th length, in both worlds."""

    rows: Sequence[tuple[str, int]]

    def replay(self) -> _Player:
        """From the beginning."""
        return _Player(self.rows)


class _Player:
    def __init__(self, rows: Sequence[tuple[str, int]]) -> None:
        self._rows = iter(rows)

    def draw(self, rng: Random) -> tuple[str, int]:  # noqa: ARG002 - it was drawn before
        return next(self._rows)


@dataclass(frozen=True, slots=True)
class Case:
    """One comparison. Arrivals that depend on nothing are drawn beforehand, as `times_ms`; a closed loop has none."""

    name: str
    scenario: Scenario
    lengths: Tape
    times_ms: Sequence[float] | None


@dataclass(frozen=True, slots=True)
class Plan:
    """A scenario in short."""

    name: str
    arrivals: Arrivals
    lengths: LengthLaw
    wait_ms: Wait = 0.0
    size: int = SIZE
    order: Order = "fifo"
    release: Release = "row"
    learned: bool = False


def fixed() -> Iterator[Plan]:
    """Order of arrival with fixed waits."""
    yield Plan("no wait, Poisson at low load", Poisson(8), SPREAD)
    yield Plan("no wait, Poisson at high load", Poisson(30), SPREAD)
    yield Plan("wait 50 ms, Poisson", Poisson(20), SPREAD, wait_ms=50)
    yield Plan("wait 50 ms, batches of 4", Poisson(12), TWO, wait_ms=50, size=4)
    yield Plan("wait 50 ms, batches of 64, textbook", Poisson(35), LIKE, wait_ms=50, size=64, release="batch")
    yield Plan("no wait, 24 clients", ClosedLoop(24, 40, exact=True), SPREAD)


def by_length() -> Iterator[Plan]:
    """Length order under a backlog of four batches."""
    backlog = ClosedLoop(5 * SIZE, 1, exact=True)
    yield Plan("length order, oracle, backlog", backlog, SPREAD, order="length")
    yield Plan("length order, learned, backlog", backlog, ROUTES, order="length", learned=True)
    yield Plan("order of arrival, backlog", backlog, ROUTES)


def learned_waits(scale: float) -> Iterator[tuple[Plan, Sequence[float]]]:
    """The learned wait, and the fixed ones that it is compared with, ms."""
    waits = [wait_ms * scale for wait_ms in (0.0, 10.0, 25.0, 50.0)]
    yield Plan("learned wait, Poisson", Poisson(10), SPREAD, wait_ms="auto"), waits
    yield Plan("learned wait, fan-out of 8", Bursts(12, 8, 20, exact=True), LIKE, wait_ms="auto"), waits
    yield Plan("learned wait, clumps of 5", Bursts(10, 5, 40), SPREAD, wait_ms="auto"), waits
    yield Plan("learned wait, 10 clients", ClosedLoop(10, 9.3, exact=True), LIKE, wait_ms="auto"), waits


def case_of(plan: Plan, *, seconds: float, seed: int, scale: float) -> Case:
    """Enough requests for so many seconds, drawn from the seed. All times are `scale` times as long."""
    rng, requests = Random(seed), round(seconds / scale * _per_s(plan))
    arrivals, times = plan.arrivals, None
    if isinstance(arrivals, ClosedLoop):
        arrivals = replace(arrivals, think_ms=arrivals.think_ms * scale)
    else:
        source = arrivals.source(requests, rng)
        times = [source.pop() * scale for _ in range(requests)]
    scenario = Scenario(
        ServiceCurve(**{name: ms * scale for name, ms in CURVE.model_dump().items()}),
        arrivals,
        plan.lengths,
        size=plan.size,
        wait_ms=plan.wait_ms if plan.wait_ms == "auto" else plan.wait_ms * scale,
        order=plan.order,
        release=plan.release,
        predictions=Learned() if plan.learned else ORACLE,
        prompt_tokens=PROMPT,
        max_tokens=MAX_TOKENS,
        requests=requests,
        seed=seed,
    )
    return Case(plan.name, scenario, Tape([plan.lengths.draw(rng) for _ in range(requests)]), times)


def _per_s(plan: Plan) -> float:
    """About how many a second."""
    if isinstance(plan.arrivals, Poisson | Bursts):
        return plan.arrivals.per_s
    assert isinstance(plan.arrivals, ClosedLoop)
    return min(35.0, 6.0 * plan.arrivals.clients)
