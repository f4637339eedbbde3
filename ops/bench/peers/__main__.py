"""Busload beside Mosec, Ray Serve, BentoML, LitServe, celery-batches and batched, on the same handler.

Every server runs in processes of its own, and the client in another. The handler costs nothing, or sleeps 20 ms
for a batch and 1 ms for each item, in the process that runs batches; a batch holds 32, its first waits 10 ms. Each
peer gets a virtual environment of its own in ~/.cache/busload/peers, with the versions in versions.txt. The peers
take turns, and in each turn one server serves all scenarios of a handler. Each client runs on uvloop. It is a library
that a Python backend would call (Busload's AsyncClient, aiohttp, a Ray Serve handle, Celery), or a bare wire that only
writes bytes and looks for the end of the answer; the report compares each with the row of Busload of the same kind.
In a repeat every peer gets the same arrivals, in the next one others. The last part breaks things and tells what each
peer did.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

from lab import OUT, write

from . import behaviour, figures, picture, report
from .install import VERSIONS, CannotInstall, parse_versions
from .scenarios import LIMIT, Scenario, chosen, scenarios
from .serving import ROWS, CannotStart, Server, serving

CLIENT = str(Path(__file__).with_name("client.py"))


class ClientFailed(Exception):
    """A client process ended without its figures; the text is the end of what it said."""


def measure(server: Server, scenario: Scenario) -> dict[str, float]:
    """Run the client on it. Raises ClientFailed."""
    job = scenario.job | {"pids": server.processes(), "counts": str(server.counts)}
    command = [server.python, CLIENT, server.style, server.address, json.dumps(job)]
    limit_s = 150 + 3 * job["seconds"]
    try:
        done = subprocess.run(
            command, env=server.environment, capture_output=True, text=True, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise ClientFailed(f"no figures within {limit_s:.0f} s") from None
    if done.returncode != 0:
        raise ClientFailed(done.stderr[-800:])
    return figures.figures(
        json.loads(done.stdout.splitlines()[-1]), window_ms=scenario.work.window_ms, limit=scenario.limit
    )


def turn(name: str, plan: list[Scenario], repeat: int, runs: figures.Runs, faults: dict[str, str]) -> None:
    """One repeat of one peer: a fresh server for each handler, all its scenarios on it."""
    for work in dict.fromkeys(one.work for one in plan):
        try:
            with serving(name, work) as server:
                for scenario in (one for one in plan if one.work == work):
                    found = measure(server, scenario)
                    runs.setdefault(scenario.name, {}).setdefault(name, {})[repeat] = found
                    shown = ", ".join(f"{key} {value:,.3f}" for key, value in found.items())
                    print(f"  {name:<19} {scenario.name:<24} {shown}", flush=True)
        except (CannotInstall, CannotStart, ClientFailed) as error:
            faults[name] = str(error)
            print(f"  {name}: not measured: {error}", flush=True)
            if isinstance(error, CannotInstall):
                return


def words() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-peers", description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="of a closed loop; an open one runs four times that")
    parser.add_argument("--seed", type=int, default=1, help="of the first repeat's arrivals; the next takes the next")
    parser.add_argument("--only", default=",".join(ROWS), help=f"of {', '.join(ROWS)}")
    names = ", ".join(f'"{one.name}"' for one in scenarios(1, 1))
    parser.add_argument(
        "--scenarios", nargs="+", default=[], metavar="NAME", help=f"only those that begin so, of {names}"
    )
    parser.add_argument("--quick", action="store_true", help="one repeat of 2 s each: shows that it runs, no figures")
    parser.add_argument("--no-behaviour", action="store_true", help="leave out what breaks things")
    parser.add_argument("--behaviour-only", action="store_true", help="only what breaks things")
    args = parser.parse_args()
    args.names = args.only.split(",")
    if unknown := set(args.names) - set(ROWS):
        parser.error(f"--only: {', '.join(sorted(unknown))} is none of {', '.join(ROWS)}")
    for begins in args.scenarios:
        if not chosen(scenarios(1, 1), [begins]):
            parser.error(f"--scenarios: no name begins with {begins!r}; there are {names}")
    args.repeats, args.seconds = (1, 2.0) if args.quick else (args.repeats, args.seconds)
    if args.behaviour_only:
        args.repeats = 0
    return args


def measured(args: argparse.Namespace) -> tuple[figures.Runs, dict[str, str]]:
    """All repeats of all peers, in turns; and what kept a peer from being measured."""
    runs: figures.Runs = {}
    faults: dict[str, str] = {}
    began = time.monotonic()
    for repeat in range(args.repeats):
        plan = chosen(scenarios(args.seconds, args.seed + repeat), args.scenarios)
        if not repeat:
            turn_s = sum(one.job["seconds"] + one.job["warm_s"] + 2 for one in plan)
            print(f"peers: {args.repeats} x {len(args.names)} turns of about {turn_s:.0f} s")
        for place, name in enumerate(args.names):
            done = f"{repeat * len(args.names) + place + 1}/{args.repeats * len(args.names)}"
            print(f"turn {done}, {time.monotonic() - began:.0f} s: {name}", flush=True)
            turn(name, plan, repeat, runs, faults)
    return runs, faults


def broken(names: list[str]) -> dict[str, dict[str, str]]:
    """What each server did when things broke, once for each: not again for another client of the same server."""
    tried = [name for name in names if not name.endswith(("process", "raw", "aiohttp"))]
    behaves = {name: behaviour.all_of(name) for name in tried}
    for what in next(iter(behaves.values()), {}):
        print(f"\n{what}\n{figures.table([[peer, told.get(what, '-')] for peer, told in behaves.items()])}")
    return behaves


def main() -> None:
    args = words()
    print(f"the handler's limit is {LIMIT:.0f}/s")
    runs, faults = measured(args)
    summaries = {
        scenario: {peer: figures.summary(list(found.values())) for peer, found in peers.items()}
        for scenario, peers in runs.items()
    }
    compared = report.report(summaries, runs)
    behaves = {} if args.no_behaviour else broken(args.names)
    for name, fault in faults.items():
        print(f"\n{name} was not measured throughout: {fault}")
    versions = parse_versions(VERSIONS.read_text(encoding="utf-8"))
    kept = {"seed": args.seed, "seconds": args.seconds, "repeats": args.repeats, "limit_per_s": LIMIT}
    kept |= {"versions": versions, "clients": {name: ROWS[name].client for name in args.names}}
    kept |= {"summary": summaries, "ratios": compared, "runs": runs}
    stem = "peers" + ("-quick" if args.quick else "") + ("-behaviour" if args.behaviour_only else "")
    stem += "-part" if args.scenarios else ""
    write(stem, kept | {"behaviour": behaves, "not_measured": faults})
    if summaries:
        picture.draw(summaries, OUT / f"{stem}.png")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("stopped; every server was ended, nothing was written")
