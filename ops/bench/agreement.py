"""The simulator against the real system: the same arrivals, lengths and service curve in both.

The real one is a redis-server, a busload-worker with the fake engine, which sleeps the curve, and an asyncio client
in a process of its own. Figures are the client's latencies and the worker's batches. A few scenarios run at
once, each on a queue and by a worker of its own, for they mostly sleep.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from agreement_real import WARM_UP, serve, with_whole
from agreement_scenarios import CURVE, Case, by_length, case_of, fixed, learned_waits
from lab import own_redis, write

from busload_worker.simulation import Outcome, Trace, simulate
from busload_worker.simulation.scenario import Wait

BOUND = 0.05
FIGURES = ("mean_ms", "p99_ms", "rows", "per_s")
BOUND_FIGURES = ("mean_ms", "per_s")
"""What must agree: p99 and the mean size of a batch are shown."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One scenario in both worlds."""

    case: Case
    real: Outcome
    late: float
    simulated: Outcome

    def ratio(self, figure: str) -> float:
        """Real by simulated."""
        return figure_of(self.real, figure) / figure_of(self.simulated, figure)


def figure_of(outcome: Outcome, figure: str) -> float:
    """One of FIGURES; rows are those of a batch, in the mean."""
    return outcome.requests / outcome.batches if figure == "rows" else float(getattr(outcome, figure))


def simulated(case: Case) -> Outcome:
    """Its figures in the simulator, with what was drawn for both."""
    arrivals = case.scenario.arrivals if case.times_ms is None else Trace(case.times_ms)
    scenario = replace(case.scenario, arrivals=arrivals)
    counted, whole = (simulate(replace(scenario, warm_up=w, lengths=case.lengths.replay())) for w in (WARM_UP, 0.0))
    return with_whole(counted, whole)


def waiting(case: Case, wait_ms: Wait) -> Case:
    """The same with another wait."""
    scenario = replace(case.scenario, wait_ms=wait_ms)
    return replace(case, name=f"{case.name.removeprefix('learned ')}: {wait_ms}", scenario=scenario)


def best_fixed(case: Case, waits: Sequence[float]) -> float:
    """The wait that is best in hindsight, by simulation."""
    return min(waits, key=lambda wait_ms: simulated(waiting(case, wait_ms)).mean_ms)


async def run_all(url: str, cases: Sequence[Case], *, at_once: int) -> list[Pair]:
    """Each in both worlds, group by group: whatever starts or ends would slow what is measured. A line as each ends."""
    pairs = []
    for first in range(0, len(cases), at_once):
        group = cases[first : first + at_once]
        ready = asyncio.Barrier(len(group))
        pairs += await asyncio.gather(
            *(one(url, case, f"agreement:{first + i}", ready=ready) for i, case in enumerate(group))
        )
    return pairs


async def one(url: str, case: Case, queue: str, *, ready: asyncio.Barrier) -> Pair:
    """One case; it begins and ends together with the others of its group."""
    expected = await asyncio.to_thread(simulated, case)
    pair = Pair(case, *await serve(url, case, queue, together=ready), expected)
    print(line_of(pair), flush=True)
    return pair


def line_of(pair: Pair) -> str:
    """Real figures, and their ratio to the simulated ones."""
    cells = [f"{figure_of(pair.real, figure):>8.1f} ({pair.ratio(figure):5.3f})" for figure in FIGURES]
    return f"  {pair.case.name:<40}{'  '.join(cells)}  {pair.late:>6.1%}"


def ratios_of_waits(pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    """The learned wait's mean latency by that of the best fixed one, in both worlds. `pairs` are (learned, fixed) in
    turn."""
    found = []
    for auto, best in zip(pairs[::2], pairs[1::2], strict=True):
        real, expected = auto.real.mean_ms / best.real.mean_ms, auto.simulated.mean_ms / best.simulated.mean_ms
        found.append(
            {"name": auto.case.name, "best_ms": best.case.scenario.wait_ms, "real": real, "simulated": expected}
        )
    return found


def faults(pairs: Sequence[Pair], waits: Sequence[dict[str, Any]]) -> list[str]:
    """What does not agree within the bound."""
    off = [
        f"{pair.case.name}: {figure} is {pair.ratio(figure):.3f} of what is simulated"
        for pair in pairs
        for figure in BOUND_FIGURES
        if abs(pair.ratio(figure) - 1) > BOUND
    ]
    return off + [
        f"{row['name']}: {row['real']:.3f} of the best fixed wait, simulated {row['simulated']:.3f}"
        for row in waits
        if abs(row["real"] / row["simulated"] - 1) > BOUND
    ]


def described(pair: Pair) -> dict[str, Any]:
    """For the file."""
    shares = {figure: pair.ratio(figure) for figure in FIGURES}
    worlds = {"real": asdict(pair.real), "simulated": asdict(pair.simulated)}
    return {
        "name": pair.case.name,
        "requests": pair.case.scenario.requests,
        "late": pair.late,
        "ratio": shares,
        **worlds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=45.0, help="how long each scenario lasts")
    parser.add_argument("--at-once", type=int, default=5, help="scenarios that run at the same time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scale", type=float, default=1.0, help="all times so many times as long: for a busy machine")
    parser.add_argument("--only", default="", help="scenarios whose name has this in it")
    args = parser.parse_args()
    began = time.monotonic()
    given = {"seconds": args.seconds, "seed": args.seed, "scale": args.scale}
    plain = [case_of(plan, **given) for plan in (*fixed(), *by_length()) if args.only in plan.name]
    autos = [(case_of(plan, **given), waits) for plan, waits in learned_waits(args.scale) if args.only in plan.name]
    against = [one for auto, waits in autos for one in (auto, waiting(auto, best_fixed(auto, waits)))]
    print(
        f"{len(plain) + len(against)} scenarios of {args.seconds:.0f} s, {args.at_once} at once. Real (by simulated):"
    )
    print(f"  {'':<40}{'mean, ms':>16}  {'p99, ms':>16}  {'rows a batch':>16}  {'requests/s':>16}    late")
    with own_redis() as url:
        pairs = asyncio.run(run_all(url, [*plain, *against], at_once=args.at_once))
    waits = ratios_of_waits(pairs[len(plain) :])
    print("  late: how much longer batches took than the curve says; over 1 % the machine has other work")
    print("Mean latency with the learned wait by that with the best fixed one")
    for row in waits:
        print(f"  {row['name']:<40} real {row['real']:.3f}, simulated {row['simulated']:.3f}; best {row['best_ms']} ms")
    figures = {"curve": CURVE.model_dump(), **given, "bound": BOUND}
    write("agreement", {**figures, "scenarios": [described(pair) for pair in pairs], "waits": waits})
    off = faults(pairs, waits)
    print(
        f"  {time.monotonic() - began:.0f} s; "
        + (f"{len(off)} beyond {BOUND:.0%}" if off else f"all within {BOUND:.0%}")
    )
    if off:
        sys.exit("\n".join(off))


if __name__ == "__main__":
    main()
