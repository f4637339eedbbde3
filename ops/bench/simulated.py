"""What the policies gain, by simulation: early release, length order, the learned wait. Seeded; a few minutes.

python ops/bench/simulated.py            all of it
python ops/bench/simulated.py --quick       a seed and a few scenarios of each, to see that it works
"""

from __future__ import annotations

import argparse
import itertools
import math
import multiprocessing
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any, TypeVar

import lab
import waits

from busload_shared.curve import ServiceCurve
from busload_worker.simulation import (
    ORACLE,
    Backlog,
    Learned,
    LengthLaw,
    Lognormal,
    Mixed,
    Noisy,
    Poisson,
    Predictions,
    Scenario,
    simulate,
)

CURVES = {"GPU-like": waits.GPU, "CPU-like": waits.CPU}
LENGTHS = Lognormal(74, 1.0)
"""Median 74 tokens, mean 122, one in a hundred over 750."""

TASKS = Mixed([(1, Lognormal(74 * math.exp(at), 0.6, route=f"{at:+}")) for at in (-1.1, -0.25, 0.25, 1.1)])
"""Four routes, which together are close to that."""

PREDICTIONS: dict[str, tuple[Predictions, LengthLaw]] = {
    "oracle": (ORACLE, LENGTHS),
    "noisy": (Noisy(0.5), LENGTHS),
    "learned": (Learned(), TASKS),
}
BACKLOGS = (4, 16)
WANTED = {("GPU-like", "oracle", 4): 2.6, ("GPU-like", "noisy", 4): 1.7}
LOADS = (0.2, 0.4, 0.6, 0.7, 0.8, 0.9, 0.95, 1.05)
SIZE = 32
SUITES = {"made on": waits.tuned, "held out": waits.held_out, "fresh": waits.fresh, "drawn": waits.drawn}

Item = TypeVar("Item")
Got = TypeVar("Got")


def base(curve: ServiceCurve, lengths: LengthLaw = LENGTHS, batches: int = 4) -> Scenario:
    """Saturated: so many batches always wait."""
    return Scenario(curve, Backlog(batches * SIZE), lengths, size=SIZE, prompt_tokens=50, requests=400 * SIZE)


def gain_of_order(job: tuple[str, str, int, int]) -> dict[str, Any]:
    """Throughput by length order over that by order of arrival, and the longest waits."""
    curve, name, batches, seed = job
    predictions, lengths = PREDICTIONS[name]
    fifo = replace(base(CURVES[curve], lengths, batches), seed=seed)
    by_length = simulate(replace(fifo, order="length", predictions=predictions))
    plain = simulate(fifo)
    return {
        "curve": curve,
        "predictions": name,
        "backlog": batches,
        "seed": seed,
        "throughput": by_length.per_s / plain.per_s,
        "p99": by_length.p99_ms / plain.p99_ms,
        "longest_wait": by_length.longest_wait_ms / plain.longest_wait_ms,
        "effective": [plain.effective, by_length.effective],
    }


def at_load(saturated: Scenario, load: float) -> Scenario:
    """Random arrivals at this share of what is served by order of arrival."""
    return replace(saturated, arrivals=Poisson(load * simulate(saturated).per_s), requests=10_000)


def latency_under_load(job: tuple[str, float, int]) -> dict[str, Any]:
    """At a share of the capacity by order of arrival: mean and p99 by early release and by length order."""
    curve, load, seed = job
    laws = {id(lengths): lengths for _, lengths in PREDICTIONS.values()}
    open_loops = {key: at_load(replace(base(CURVES[curve], lengths), seed=seed), load) for key, lengths in laws.items()}
    plain = {key: simulate(open_loop) for key, open_loop in open_loops.items()}
    textbook = simulate(replace(open_loops[id(LENGTHS)], release="batch"))
    fifo = plain[id(LENGTHS)]
    found: dict[str, Any] = {
        "curve": curve,
        "load": load,
        "seed": seed,
        "release": fifo.mean_ms / textbook.mean_ms,
        "release_throughput": fifo.per_s / textbook.per_s,
    }
    for name, (predictions, lengths) in PREDICTIONS.items():
        outcome = simulate(replace(open_loops[id(lengths)], order="length", predictions=predictions))
        beside = plain[id(lengths)]
        found[name] = {"mean": outcome.mean_ms / beside.mean_ms, "p99": outcome.p99_ms / beside.p99_ms}
    return found


def wait_against_fixed(job: tuple[str, Scenario]) -> dict[str, Any]:
    """The learned wait's mean latency over that of the best fixed wait of this very scenario, found in hindsight."""
    name, scenario = job
    one_ms = waits.one_ms(scenario.curve, scenario.lengths)
    seeds = [replace(scenario, seed=scenario.seed + i) for i in range(waits.SEEDS)]
    fixed = {w: sum(simulate(replace(s, wait_ms=w * one_ms)).mean_ms for s in seeds) for w in waits.WAITS}
    auto = sum(simulate(replace(s, wait_ms="auto")).mean_ms for s in seeds)
    best = min(fixed, key=lambda wait: fixed[wait])
    return {
        "name": name,
        "auto": auto / fixed[best],
        "best_wait": best,
        "fixed": {str(wait): mean / fixed[best] for wait, mean in fixed.items()},
    }


def report_order(found: Sequence[dict[str, Any]]) -> None:
    """Ratios by backlog."""
    print(f"\nLength order by order of arrival, batches of {SIZE}, lognormal lengths, backlog in batches")
    for case in itertools.product(CURVES, PREDICTIONS, BACKLOGS):
        rows = [row for row in found if (row["curve"], row["predictions"], row["backlog"]) == case]
        gains = [row["throughput"] for row in rows]
        label = "{}, {}, backlog {}".format(*case)
        lab.show(f"{label}: throughput", gains, "x")
        lab.show(f"{label}: p99", [row["p99"] for row in rows], "x")
        if case in WANTED:
            says = "holds" if geometric(gains) >= WANTED[case] else "DOES NOT HOLD"
            print(f"    at least {WANTED[case]} in the geometric mean: {geometric(gains):.2f}, {says}")


def report_latency(found: Sequence[dict[str, Any]]) -> None:
    """A table of ratios by load."""
    print("\nMean latency by load: early release by textbook; then length order by order of arrival, mean (p99)")
    for curve in CURVES:
        print(f"  {curve:<10} load  release   {'   '.join(f'{name:<12}' for name in PREDICTIONS)}")
        for load in sorted({row["load"] for row in found}):
            rows = [row for row in found if (row["curve"], row["load"]) == (curve, load)]
            cells = [f"{geometric([r[p]['mean'] for r in rows]):.3f} ({geometric([r[p]['p99'] for r in rows]):.2f})"
                     for p in PREDICTIONS]  # fmt: skip
            print(f"  {'':<10} {load:.2f}  {geometric([r['release'] for r in rows]):.3f}     {'   '.join(cells)}")
    worst = max(row[p]["mean"] for row in found for p in PREDICTIONS)
    print(f"  worst mean of length order in any run: {worst:.3f} of order of arrival")


def report_waits(suite: str, found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Worst and mean, and what the best single fixed wait would have done."""
    ratios = [row["auto"] for row in found]
    singles = {wait: [row["fixed"][str(wait)] for row in found] for wait in waits.WAITS}
    single = min(singles, key=lambda wait: geometric(singles[wait]))
    summary = {
        "scenarios": len(found),
        "worst": max(ratios),
        "geometric_mean": geometric(ratios),
        "no_wait": {"worst": max(singles[0.0]), "geometric_mean": geometric(singles[0.0])},
        "best_single": {"wait": single, "worst": max(singles[single]), "geometric_mean": geometric(singles[single])},
    }
    print(f"\nMean latency by the best fixed wait of each scenario in hindsight, {suite}, {len(found)} scenarios")
    print(f"  {'':<34} geometric mean   worst")
    print(f"  {'learned wait':<34} {summary['geometric_mean']:>14.3f}   {summary['worst']:.3f}")
    for name, label in (("no_wait", "no wait"), ("best_single", f"one wait for all, {single:.2f} of a run of one")):
        print(f"  {label:<34} {summary[name]['geometric_mean']:>14.3f}   {summary[name]['worst']:.3f}")
    for row in sorted(found, key=lambda row: -row["auto"])[:3]:
        print(f"    {row['auto']:.3f}  {row['name']}")
    return summary


def geometric(values: Iterable[float]) -> float:
    """The geometric mean."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs))


def over(pool: Any, label: str, work: Callable[[Item], Got], items: Sequence[Item]) -> list[Got]:
    """Do them all, and say how far it is."""
    began, got = time.monotonic(), []
    for done, result in enumerate(pool.imap(work, items), start=1):
        got.append(result)
        print(f"\r  {label}: {done} of {len(items)}, {time.monotonic() - began:.0f} s ", end="", flush=True)
    print()
    return got


def order_part(pool: Any, seeds: Sequence[int]) -> None:
    """Early release and length order."""
    orders = list(itertools.product(CURVES, PREDICTIONS, BACKLOGS, seeds))
    loads = [(curve, load, seed) for curve in CURVES for load in LOADS for seed in seeds]
    order = over(pool, "length order", gain_of_order, orders)
    latency = over(pool, "latency under load", latency_under_load, loads)
    report_order(order)
    report_latency(latency)
    curves = {name: curve.model_dump() for name, curve in CURVES.items()}
    given = {"curves": curves, "lengths": asdict(LENGTHS), "seeds": list(seeds)}
    lab.write("simulated-order", {**given, "order": order, "latency": latency})


def waits_part(pool: Any, step: int) -> None:
    """The learned wait: each `step`-th scenario of each suite."""
    suites = {name: list(suite())[::step] for name, suite in SUITES.items()}
    waited = {name: over(pool, f"learned wait, {name}", wait_against_fixed, suite) for name, suite in suites.items()}
    figures = {name: {"summary": report_waits(name, found), "scenarios": found} for name, found in waited.items()}
    lab.write("simulated-waits", {"seeds": waits.SEEDS, "suites": figures})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a seed and a few scenarios")
    parser.add_argument("--seeds", type=int, default=5, help="seeds of each ratio")
    parser.add_argument("--only", choices=("order", "waits"), help="one part of it")
    args = parser.parse_args()
    print(lab.machine())
    with multiprocessing.get_context("spawn").Pool() as pool:
        if args.only != "waits":
            order_part(pool, range(1, 2 if args.quick else args.seeds + 1))
        if args.only != "order":
            waits_part(pool, 25 if args.quick else 1)


if __name__ == "__main__":
    main()
