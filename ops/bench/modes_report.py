"""The modes benchmark's tables, verdicts, JSON and pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import lab
import modes_pictures as pictures
from modes_figures import Figures, summary, verdict
from modes_scenarios import PASSENGERS, Bench
from rich.console import Console
from rich.table import Table

BASE = "textbook"
COLUMNS = (
    ("requests/s", "per_s", "{:.2f}"),
    ("mean s", "mean_s", "{:.2f}"),
    ("p50 s", "p50_s", "{:.2f}"),
    ("p99 s", "p99_s", "{:.2f}"),
    ("fill", "fill", "{:.2f}"),
    ("effective", "effective", "{:.2f}"),
    ("held ms", "held_ms", "{:.0f}"),
    ("gap ms", "gap_ms", "{:.1f}"),
)
Found = Mapping[str, Mapping[str, Mapping[str, float]]]


def table(scenario: str, found: Found) -> None:
    """A line for each mode: medians, and medians and ranges of the ratios to the textbook."""
    made = Table(title=f"{scenario}: medians; ratios to the textbook repeat by repeat, median (range)", expand=False)
    for title in ("mode", *(title for title, _, _ in COLUMNS), "throughput ratio", "mean latency ratio", "n"):
        made.add_column(title, justify="left" if title == "mode" else "right")
    for mode, values in found.items():
        cells = [form.format(values[name]["median"]) for _, name, form in COLUMNS]
        ratios = [_range(values.get(f"{name} ratio")) for name in ("per_s", "mean_s")]
        made.add_row(mode, *cells, *ratios, f"{values['per_s']['n']:.0f}")
    Console(width=170).print(made)


def _range(values: Mapping[str, float] | None) -> str:
    return "-" if values is None else f"{values['median']:.3f} ({values['min']:.3f} to {values['max']:.3f})"


def ratios(runs: Mapping[str, Mapping[int, Figures]], mode: str, base: str, name: str) -> list[float]:
    """Repeat by repeat, where both were run."""
    if mode not in runs or base not in runs:
        return []
    both = runs[mode].keys() & runs[base].keys()
    return [getattr(runs[mode][at], name) / getattr(runs[base][at], name) for at in sorted(both)]


def verdicts(bench: Bench) -> list[str]:
    """What must hold, beside what was found."""
    wanted: list[tuple[str, str, str, str, str, float | None, float | None]] = []
    for scenario in ("open 0.5", "open 0.7"):
        wanted.append((scenario, "early release", BASE, "mean_s", "mean latency", None, 0.75))
        wanted.append((scenario, "early release", BASE, "per_s", "throughput", 0.98, 1.02))
    for scenario in ("backlog 4N", "steady 4N"):
        for hint, least in (("oracle", 1.5), ("noisy", 1.3), ("learned", None)):
            wanted.append((scenario, f"length order, {hint}", BASE, "per_s", "throughput", least, None))
            wanted.append((scenario, f"length order, {hint}", BASE, "mean_s", "mean latency", None, 1.0))
    for hint, least in (("oracle", 0.85), ("noisy", None), ("learned", None)):
        wanted.append(("backlog 16N", f"all remedies, {hint}", "continuous", "per_s", "throughput", least, None))
    lines = []
    for scenario, mode, base, name, said, least, most in wanted:
        values = ratios(bench.figures(scenario), mode, base, name)
        if values:
            text = f"{scenario}: {said}, {mode} by {base}"
            lines.append(verdict(text, values, at_least=least, at_most=most))
    return lines


def texts(bench: Bench) -> dict[str, tuple[int, int, int]]:
    """How many answers early release left as they are. Only batches of the very same requests can be compared: in
    bfloat16 a row's neighbours may change its text, whoever serves it."""
    found = {}
    for scenario in bench.rows:
        same, together, everything = found[scenario] = bench.same_texts(scenario)
        if together:
            print(
                f"  {scenario}: early release and textbook: {same} of {together} texts are identical in batches of the "
                f"same requests ({everything} requests in all)"
            )
    return found


def report(bench: Bench, given: dict[str, Any]) -> None:
    """All of it."""
    print(f"\n{lab.machine()}\n{given}\n")
    summaries: dict[str, Found] = {}
    for scenario in (name for name in bench.rows if name != "footgun"):
        summaries[scenario] = summary(bench.figures(scenario), BASE)
        table(scenario, summaries[scenario])
    lines = verdicts(bench)
    print("\n".join(lines))
    same = texts(bench)
    _draw(bench, summaries)
    runs = {name: {mode: {str(at): asdict(one) for at, one in repeats.items()} for mode, repeats in found.items()}
            for name, found in ((name, bench.figures(name)) for name in summaries)}  # fmt: skip
    footgun = {mode: [asdict(row) for row in repeats[0]] for mode, repeats in bench.rows.get("footgun", {}).items()}
    lab.write("modes", {**given, "summary": summaries, "verdicts": lines, "same_texts": same, "runs": runs,
                        "footgun": footgun})  # fmt: skip


def _draw(bench: Bench, summaries: Mapping[str, Found]) -> None:
    lab.OUT.mkdir(exist_ok=True)
    if "open 0.7" in summaries:
        title = "Latency by mode, Poisson arrivals at 0.7 of the capacity in order of arrival"
        pictures.latency(lab.OUT / "modes-latency.png", title, summaries["open 0.7"])
    deep = bench.figures("backlog 16N")
    shares = _shares(deep)
    if shares:
        title = f"A backlog of {16 * bench.size} requests, batches of {bench.size}"
        pictures.share(lab.OUT / "modes-share.png", title, shares)
    if "footgun" in bench.rows:
        runs = {mode: repeats[0] for mode, repeats in bench.rows["footgun"].items()}
        _tell_footgun(runs)
        pictures.footgun(lab.OUT / "modes-footgun.png", runs, [name for name, _, _ in PASSENGERS])


def _shares(deep: Mapping[str, Mapping[int, Figures]]) -> dict[str, dict[str, float]]:
    found = {}
    for mode in deep:
        values = ratios(deep, mode, "continuous", "per_s")
        if values and mode != "continuous":
            found[mode] = lab.spread(values)
    return found


def _tell_footgun(runs: Mapping[str, Sequence[Any]]) -> None:
    print("A one-sentence summary and a 500-word article in one batch: ready after")
    for mode, rows in runs.items():
        parts = [f"{PASSENGERS[row.place][0]} {row.ended_s:.2f} s (held {row.held_ms / 1000:.2f} s)"
                 for row in sorted(rows, key=lambda row: row.place)]  # fmt: skip
        print(f"  {mode:<14} {', '.join(parts)}")
