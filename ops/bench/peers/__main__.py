"""Busload beside Mosec, Ray Serve, BentoML, LitServe, celery-batches and batched, on the same handler.

Every server runs in processes of its own, and the client in another. The handler costs nothing, or sleeps 20 ms
for a batch and 1 ms for each item, in the process that runs batches; a batch holds 32, its first waits 10 ms. Each
peer gets a virtual environment of its own in ~/.cache/busload/peers, with the versions in versions.txt. The peers
take turns, and in each turn one server serves all scenarios of a handler. The last part breaks things and tells
what each peer did.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import OUT, write

from . import behaviour, figures, picture
from .install import VERSIONS, CannotInstall, parse_versions
from .serving import STYLES, CannotStart, Server, Work, serving

CLIENT = str(Path(__file__).with_name("client.py"))
FREE, COSTLY = Work(), Work(base_ms=20, item_ms=1)
LIMIT = figures.limit_per_s(batch=COSTLY.batch, base_ms=COSTLY.base_ms, item_ms=COSTLY.item_ms)


class ClientFailed(Exception):
    """A client process ended without its figures; the text is the end of what it said."""


@dataclass(frozen=True)
class Scenario:
    """One job of the client on a server with this work."""

    name: str
    work: Work
    job: dict[str, Any]
    limit: float | None = None


def scenarios(seconds: float, seed: int) -> list[Scenario]:
    """Closed loops, then open ones; an open loop runs longer, as it needs its hundredth part."""
    spun = {"kind": "closed", "seconds": seconds, "warm_s": 1.0}
    drawn = {"kind": "open", "seed": seed, "warm_s": 2.0}
    return [
        *(Scenario(f"closed {n}, 0 ms", FREE, spun | {"outstanding": n}) for n in (64, 256)),
        Scenario("5/s, 0 ms", FREE, drawn | {"rate": 5.0, "spread": 0.2, "seconds": seconds * 4}),
        *(Scenario(f"closed {n}, 20+n ms", COSTLY, spun | {"outstanding": n}, LIMIT) for n in (64, 256)),
        *(
            Scenario(f"{name}, 20+n ms", COSTLY, drawn | {"rate": LIMIT * share, "spread": 1, "seconds": seconds * 4})
            for name, share in (("half", 0.5), ("nine tenths", 0.9))
        ),
    ]


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


def turn(name: str, plan: list[Scenario], runs: figures.Runs, faults: dict[str, str]) -> None:
    """One repeat of one peer: a fresh server for each handler, all its scenarios on it."""
    for work in (FREE, COSTLY):
        try:
            with serving(name, work) as server:
                for scenario in (one for one in plan if one.work == work):
                    found = measure(server, scenario)
                    runs.setdefault(scenario.name, {}).setdefault(name, []).append(found)
                    shown = ", ".join(f"{key} {value:,.3f}" for key, value in found.items())
                    print(f"  {name:<19} {scenario.name:<24} {shown}", flush=True)
        except (CannotInstall, CannotStart, ClientFailed) as error:
            faults[name] = str(error)
            print(f"  {name}: not measured: {error}", flush=True)
            if isinstance(error, CannotInstall):
                return


def report(summaries: dict[str, Any], runs: figures.Runs) -> dict[str, Any]:
    """Print a table for each scenario; returns Busload's ratios to each peer."""
    found: dict[str, Any] = {}
    for scenario, peers in summaries.items():
        name = "p50_ms" if any("p50_ms" in peer for peer in peers.values()) else "per_s"
        columns = ["per_s", "share_of_limit", "p50_ms", "p99_ms", "p50_over_window_ms", "mean_batch"]
        columns += ["server_cpu_s_per_1000", "client_cpu_s_per_1000", "failed"]
        columns = [column for column in columns if any(column in peer for peer in peers.values())]
        rows = [["peer", *columns, f"Busload/peer, {name}"]]
        for peer, figure in peers.items():
            ratio = figures.ratios(runs[scenario].get("busload", []), runs[scenario][peer], name)
            found.setdefault(scenario, {})[peer] = {name: ratio}
            cells = [_cell(figure[column]) if column in figure else "-" for column in columns]
            rows.append([peer, *cells, f"{min(ratio):.2f} to {max(ratio):.2f}" if ratio else "-"])
        print(f"\n{scenario} (median, range)\n{figures.table(rows)}")
    return found


def _cell(row: dict[str, float]) -> str:
    if row["min"] == row["max"]:
        return f"{row['median']:,.5g}"
    return f"{row['median']:,.5g} ({row['min']:,.4g}-{row['max']:,.4g})"


def words() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-peers", description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="of a closed loop; an open one runs four times that")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default=",".join(STYLES), help=f"of {', '.join(STYLES)}")
    parser.add_argument("--quick", action="store_true", help="one repeat of 2 s each: shows that it runs, no figures")
    parser.add_argument("--no-behaviour", action="store_true", help="leave out what breaks things")
    parser.add_argument("--behaviour-only", action="store_true", help="only what breaks things")
    args = parser.parse_args()
    args.names = args.only.split(",")
    if unknown := set(args.names) - set(STYLES):
        parser.error(f"--only: {', '.join(sorted(unknown))} is none of {', '.join(STYLES)}")
    args.repeats, args.seconds = (1, 2.0) if args.quick else (args.repeats, args.seconds)
    if args.behaviour_only:
        args.repeats = 0
    return args


def main() -> None:
    args = words()
    plan, runs, faults = scenarios(args.seconds, args.seed), {}, {}
    per_turn_s = sum(one.job["seconds"] + one.job["warm_s"] + 2 for one in plan)
    print(f"peers: {args.repeats} x {len(args.names)} turns of about {per_turn_s:.0f} s; handler's limit {LIMIT:.0f}/s")
    began = time.monotonic()
    for repeat in range(args.repeats):
        for place, name in enumerate(args.names):
            done = f"{repeat * len(args.names) + place + 1}/{args.repeats * len(args.names)}"
            print(f"turn {done}, {time.monotonic() - began:.0f} s: {name}", flush=True)
            turn(name, plan, runs, faults)
    summaries = {
        scenario: {peer: figures.summary(found) for peer, found in peers.items()} for scenario, peers in runs.items()
    }
    compared = report(summaries, runs)
    tried = [] if args.no_behaviour else [name for name in args.names if not name.endswith(("process", "raw"))]
    behaves = {name: behaviour.all_of(name) for name in tried}
    for what in next(iter(behaves.values()), {}):
        print(f"\n{what}\n{figures.table([[peer, told.get(what, '-')] for peer, told in behaves.items()])}")
    for name, fault in faults.items():
        print(f"\n{name} was not measured throughout: {fault}")
    versions = parse_versions(VERSIONS.read_text(encoding="utf-8"))
    kept = {"seed": args.seed, "seconds": args.seconds, "repeats": args.repeats, "limit_per_s": LIMIT}
    kept |= {"versions": versions, "summary": summaries, "ratios": compared, "runs": runs}
    stem = "peers" + ("-quick" if args.quick else "") + ("-behaviour" if args.behaviour_only else "")
    write(stem, kept | {"behaviour": behaves, "not_measured": faults})
    if summaries:
        picture.draw(summaries, OUT / f"{stem}.png")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("stopped; every server was ended, nothing was written")
