"""The scenarios on which the learned wait is compared with fixed ones. The rule's constants were chosen on `TUNED`;
`HELD_OUT` has other curves, laws, sizes and rates, and was only ever used to report."""

from __future__ import annotations

from collections.abc import Iterator

from busload_shared.curve import ServiceCurve
from busload_worker.simulation import Arrivals, Bursts, ClosedLoop, Constant, LengthLaw, Lognormal, Mmpp, Poisson
from busload_worker.simulation import Scenario, Trace, bimodal

REQUESTS = 6000
WAITS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8, 1.2)
"""Fixed waits that are tried, as shares of the time a batch of one takes."""

GPU = ServiceCurve(overhead_ms=10, prompt_ms=0.02, step_ms=20, token_ms=0.05)
CPU = ServiceCurve(overhead_ms=20, prompt_ms=0.3, step_ms=12, token_ms=1.0)
FLAT = ServiceCurve(overhead_ms=100, prompt_ms=0.0, step_ms=0.0, token_ms=1.0)
SMALL = ServiceCurve(overhead_ms=5, prompt_ms=0.05, step_ms=8, token_ms=0.3)
STEEP = ServiceCurve(overhead_ms=30, prompt_ms=0.2, step_ms=6, token_ms=3.0)


def one_ms(curve: ServiceCurve, law: LengthLaw, *, n: int = 1, prompt_tokens: int = 50) -> float:
    """About how long a batch of `n` takes: all of mean length, the longest of twice that where they differ."""
    mean = mean_length(law)
    longest = mean if n == 1 or isinstance(law, Constant) else 2 * mean
    return curve.predict_ms(prompt_tokens=n * prompt_tokens, longest=round(longest), new_tokens=round(n * mean))


def mean_length(law: LengthLaw) -> float:
    """By drawing."""
    from random import Random

    rng = Random(0)
    return sum(law.draw(rng)[1] for _ in range(2000)) / 2000


def capacity_per_s(curve: ServiceCurve, law: LengthLaw, size: int) -> float:
    """About what one worker can do with full batches."""
    return 1000 * size / one_ms(curve, law, n=size)


def tuned() -> Iterator[tuple[str, Scenario]]:
    """The scenarios the constants were chosen on."""
    laws: dict[str, LengthLaw] = {"like": Constant(32), "spread": Lognormal(30, 0.8, 512)}
    for curve_name, curve in (("gpu", GPU), ("cpu", CPU), ("flat", FLAT)):
        for law_name, law in laws.items():
            for arrivals_name, arrivals in _tuned_arrivals(curve, law):
                name = f"{curve_name} {law_name} {arrivals_name}"
                yield name, Scenario(curve, arrivals, law, size=16, prompt_tokens=50, requests=REQUESTS, seed=11)


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
                yield name, Scenario(
                    curve, arrivals, law, size=24, prompt_tokens=80, requests=REQUESTS, seed=77, release=release
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
