"""The tables: each peer beside the row of Busload that is driven in the same way."""

from __future__ import annotations

from typing import Any

from . import figures
from .serving import BARE, IN_PROCESS, LIBRARY, ROWS

BESIDE = {LIBRARY: "busload", BARE: "busload-raw", IN_PROCESS: "busload"}
"""The row of Busload that a peer is compared with, by the peer's client."""
COLUMNS = (
    "per_s",
    "share_of_limit",
    "p50_ms",
    "p99_ms",
    "p50_over_window_ms",
    "mean_batch",
    "server_cpu_s_per_1000",
    "client_cpu_s_per_1000",
    "failed",
)


def report(summaries: dict[str, Any], runs: figures.Runs) -> dict[str, Any]:
    """Print a table for each scenario; returns the ratios of Busload to each peer, by figure and repeat."""
    return {scenario: _one(scenario, peers, runs[scenario]) for scenario, peers in summaries.items()}


def _one(scenario: str, peers: dict[str, Any], runs: dict[str, figures.Repeats]) -> dict[str, Any]:
    shown = [column for column in COLUMNS if any(column in peer for peer in peers.values())]
    compared = ["p50_ms", "p99_ms"] if "p50_ms" in shown else ["per_s"]
    repeats = sorted({repeat for found in runs.values() for repeat in found})
    table, found = [["peer", "client", *shown, *(f"Busload/peer, {name}" for name in compared)]], {}
    for peer in sorted(peers, key=lambda name: list(BESIDE).index(ROWS[name].client)):
        client = ROWS[peer].client
        ratios = {name: figures.ratios(runs.get(BESIDE[client], {}), runs[peer], name) for name in compared}
        found[peer] = {"beside": BESIDE[client]} | ratios
        cells = [_cell(peers[peer][column]) if column in peers[peer] else "-" for column in shown]
        table.append([peer, client, *cells, *(_by_repeat(ratios[name], repeats) for name in compared)])
    print(f"\n{scenario} (median, range; ratios repeat by repeat)\n{figures.table(table)}")
    return found


def _cell(row: dict[str, float]) -> str:
    if row["min"] == row["max"]:
        return f"{row['median']:,.5g}"
    return f"{row['median']:,.5g} ({row['min']:,.4g}-{row['max']:,.4g})"


def _by_repeat(ratios: dict[int, float], repeats: list[int]) -> str:
    """A repeat that one of the two did not finish is a dash."""
    return " ".join(f"{ratios[repeat]:.2f}" if repeat in ratios else "-" for repeat in repeats)
