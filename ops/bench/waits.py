"""The scenarios on which the learned wait is compared with fixed ones.

`tuned` is what the rule was made on. `held_out` has other curves, laws, sizes and rates: no constant was chosen on it,
but it brought to light that rows with one and the same stamp must be learned too. `fresh` was written after that; it
showed that a clump which a batch's end falls into must be waited for too, and that those who follow the next count; no
constant was changed for it. `drawn` is chance's choice of curves, laws, sizes, loads and arrivals, first looked at when
the rule was what it is.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from random import Random

from busload_shared.curve import ServiceCurve
from busload_worker.simulation import (
    Arrivals,
    Backlog,
    Bursts,
    ClosedLoop,
    Constant,
    Exponential,
    LengthLaw,
    Lognormal,
    Mixed,
    Mmpp,
    Poisson,
    Release,
    Scenario,
    Trace,
    bimodal,
    simulate,
)

REQUESTS = 6000
SEEDS = 2
PROMPT = 50
WAITS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8, 1.2)
"""Fixed waits that are tried, as shares of the time a batch of one takes."""

GPU = ServiceCurve(overhead_ms=10, prompt_ms=0.02, step_ms=20, token_ms=0.05)
CPU = ServiceCurve(overhead_ms=20, prompt_ms=0.3, step_ms=12, token_ms=1.0)
FLAT = ServiceCurve(overhead_ms=100, prompt_ms=0.0, step_ms=0.0, token_ms=1.0)
SMALL = ServiceCurve(overhead_ms=5, prompt_ms=0.05, step_ms=8, token_ms=0.3)
STEEP = ServiceCurve(overhead_ms=30, prompt_ms=0.2, step_ms=6, token_ms=3.0)
MID = ServiceCurve(overhead_ms=15, prompt_ms=0.1, step_ms=14, token_ms=0.4)
LIGHT = ServiceCurve(overhead_ms=60, prompt_ms=0.01, step_ms=2, token_ms=0.02)


def one_ms(curve: ServiceCurve, law: LengthLaw) -> float:
    """How long a batch of one takes in the mean."""
    rng = Random(0)
    mean = sum(law.draw(rng)[1] for _ in range(2000)) / 2000
    return curve.predict_ms(prompt_tokens=PROMPT, longest=round(mean), new_tokens=round(mean))


def capacity_per_s(curve: ServiceCurve, law: LengthLaw, size: int) -> float:
    """What one worker does with full batches, in the order of arrival."""
    backlog = Scenario(curve, Backlog(2 * size), law, size=size, prompt_tokens=PROMPT, requests=200 * size, seed=3)
    return simulate(backlog).per_s


def tuned() -> Iterator[tuple[str, Scenario]]:
    """The scenarios the constants were chosen on."""
    laws: dict[str, LengthLaw] = {"like": Constant(32), "spread": Lognormal(30, 0.8, 512)}
    for curve_name, curve in (("gpu", GPU), ("cpu", CPU), ("flat", FLAT)):
        for law_name, law in laws.items():
            for arrivals_name, arrivals in _tuned_arrivals(curve, law):
                name = f"{curve_name} {law_name} {arrivals_name}"
                yield name, Scenario(curve, arrivals, law, size=16, prompt_tokens=PROMPT, requests=REQUESTS, seed=11)


def _tuned_arrivals(curve: ServiceCurve, law: LengthLaw) -> Iterator[tuple[str, Arrivals]]:
    per_s, one = capacity_per_s(curve, law, 16), one_ms(curve, law)
    for load in (0.1, 0.4, 0.7):
        yield f"poisson {load}", Poisson(load * per_s)
        for rows, spread in ((4, 0.02), (8, 0.2), (16, 0.05), (12, 0.5)):
            yield f"bursts of {rows} over {spread} at {load}", Bursts(load * per_s, rows, spread * one)
    for clients in (4, 12, 32):
        for think in (0.01, 0.1, 1.0):
            yield f"{clients} clients who think {think}", ClosedLoop(clients, think * one)
    yield "busy and quiet", Mmpp(0.9 * per_s, 0.05 * per_s, 10 * one, 10 * one)


def held_out() -> Iterator[tuple[str, Scenario]]:
    """Scenarios that no constant was chosen on."""
    laws: dict[str, LengthLaw] = {"bimodal": bimodal(10, 120, 0.2), "wide": Lognormal(40, 1.1, 1024)}
    for curve_name, curve in (("small", SMALL), ("steep", STEEP)):
        for law_name, law in laws.items():
            for arrivals_name, arrivals in _held_out_arrivals(curve, law):
                name = f"{curve_name} {law_name} {arrivals_name}"
                release = "batch" if law_name == "wide" else "row"
                yield (
                    name,
                    Scenario(
                        curve, arrivals, law, size=24, prompt_tokens=PROMPT, requests=REQUESTS, seed=77, release=release
                    ),
                )


def _held_out_arrivals(curve: ServiceCurve, law: LengthLaw) -> Iterator[tuple[str, Arrivals]]:
    per_s, one = capacity_per_s(curve, law, 24), one_ms(curve, law)
    for load in (0.2, 0.5, 0.8):
        yield f"poisson {load}", Poisson(load * per_s)
        yield f"bursts of exactly 6 at {load}", Bursts(load * per_s, 6, 0.1 * one, exact=True)
        yield f"bursts of 20 at {load}", Bursts(load * per_s, 20, 0.3 * one)
        yield f"bursts of 3 at {load}", Bursts(load * per_s, 3, 0.01 * one)
    for clients in (3, 10, 40):
        yield f"{clients} clients who answer at once", ClosedLoop(clients, 0.02 * one, exact=True)
        yield f"{clients} clients who think", ClosedLoop(clients, 0.4 * one)
    yield "busy and quiet", Mmpp(0.7 * per_s, 0.1 * per_s, 4 * one, 20 * one)
    yield "a beat of pairs", Trace([k * one * 0.7 + p * 0.03 * one for k in range(500) for p in (0, 1)])


def fresh() -> Iterator[tuple[str, Scenario]]:
    """Scenarios written when the constants were chosen."""
    laws: dict[str, LengthLaw] = {
        "exponential": Exponential(60),
        "three routes": Mixed([(5, Lognormal(12, 0.4)), (3, Lognormal(90, 0.5)), (1, Constant(400))]),
    }
    for (curve_name, curve), size in itertools.product((("mid", MID), ("light", LIGHT)), (8, 48)):
        for law_name, law in laws.items():
            for arrivals_name, arrivals in _fresh_arrivals(curve, law, size):
                name = f"{curve_name} {size} {law_name} {arrivals_name}"
                yield name, Scenario(curve, arrivals, law, size=size, prompt_tokens=PROMPT, requests=REQUESTS, seed=501)


def _fresh_arrivals(curve: ServiceCurve, law: LengthLaw, size: int) -> Iterator[tuple[str, Arrivals]]:
    per_s, one = capacity_per_s(curve, law, size), one_ms(curve, law)
    for load in (0.15, 0.35, 0.6):
        yield f"poisson {load}", Poisson(load * per_s)
        yield f"bursts of 5 at {load}", Bursts(load * per_s, 5, 0.08 * one)
        yield f"bursts of exactly 30 at {load}", Bursts(load * per_s, 30, 0.4 * one, exact=True)
    yield "6 clients", ClosedLoop(6, 0.05 * one)
    yield "20 clients", ClosedLoop(20, 0.15 * one, exact=True)
    yield "60 clients", ClosedLoop(60, 0.8 * one)
    yield "on and off", Mmpp(0.6 * per_s, 0.0, 2 * one, 6 * one)


DRAWN_SEED, DRAWN = 90_001, 60


def drawn() -> Iterator[tuple[str, Scenario]]:
    """Scenarios by chance, with batches from 4 to 64 and loads from 0.05 to 0.85."""
    rng = Random(DRAWN_SEED)
    for _ in range(DRAWN):
        curve = ServiceCurve(
            overhead_ms=_magnitude(rng, 3, 150),
            prompt_ms=_magnitude(rng, 0.005, 0.4),
            step_ms=_magnitude(rng, 1, 25),
            token_ms=_magnitude(rng, 0.02, 3),
        )
        law, size, load = _drawn_law(rng), rng.choice((4, 8, 12, 16, 24, 32, 64)), rng.uniform(0.05, 0.85)
        name, arrivals = _drawn_arrivals(rng, load * capacity_per_s(curve, law, size), one_ms(curve, law), size)
        name = f"{name} at {load:.2f}, size {size}, {type(law).__name__}"
        release: Release = "row" if rng.random() < 0.5 else "batch"
        yield (
            name,
            Scenario(
                curve,
                arrivals,
                law,
                size=size,
                prompt_tokens=PROMPT,
                requests=REQUESTS,
                seed=rng.randrange(10**6),
                release=release,
            ),
        )


def _magnitude(rng: Random, least: float, most: float) -> float:
    """Each order of magnitude is as likely."""
    return math.exp(rng.uniform(math.log(least), math.log(most)))


def _drawn_law(rng: Random) -> LengthLaw:
    laws: tuple[LengthLaw, ...] = (
        Constant(rng.randint(4, 200)),
        Lognormal(rng.randint(10, 120), rng.uniform(0.3, 1.2), 1024),
        Exponential(rng.randint(10, 150)),
        bimodal(rng.randint(4, 20), rng.randint(60, 300), rng.uniform(0.05, 0.4)),
        Mixed([(5, Lognormal(12, 0.4)), (3, Lognormal(90, 0.5)), (1, Constant(400))]),
    )
    return rng.choice(laws)


def _drawn_arrivals(rng: Random, per_s: float, one: float, size: int) -> tuple[str, Arrivals]:
    rows, clients, spread = rng.randint(2, 40), rng.randint(2, 3 * size), _magnitude(rng, 0.005, 0.8)
    think, exact = _magnitude(rng, 0.005, 2), rng.random() < 0.4
    busy_ms, quiet_ms = _magnitude(rng, 1, 30) * one, _magnitude(rng, 1, 30) * one
    kind = rng.choice(("poisson", "bursts", "bursts", "bursts", "clients", "clients", "clients", "busy and quiet"))
    if kind == "bursts":
        return f"bursts of {rows} over {spread:.3f}, exact: {exact},", Bursts(per_s, rows, spread * one, exact=exact)
    if kind == "clients":
        return f"{clients} clients who think {think:.3f}, exact: {exact},", ClosedLoop(
            clients, think * one, exact=exact
        )
    if kind == "poisson":
        return kind, Poisson(per_s)
    quiet = rng.uniform(0, 0.3)
    return kind, Mmpp(per_s * (1 + (1 - quiet) * quiet_ms / busy_ms), quiet * per_s, busy_ms, quiet_ms)
