"""The modes benchmark's pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from modes_figures import Served

mpl.use("Agg")
import matplotlib.pyplot as plt

WAITED, RAN, HELD = "#b8bcc8", "#3b6fb6", "#d1603d"


def footgun(path: Path, runs: Mapping[str, Sequence[Served]], names: Sequence[str]) -> None:
    """A bar for each request, a panel for each mode: waited, ran, held. As PNG and as SVG."""
    figure, panels = plt.subplots(len(runs), 1, sharex=True, figsize=(9, 1.6 + 1.3 * len(runs)), layout="constrained")
    for axes, (mode, rows) in zip(panels, runs.items(), strict=True):
        for row in sorted(rows, key=lambda row: row.place):
            left = 0.0
            parts = (("waited", row.waited_ms, WAITED), ("ran", row.run_ms, RAN), ("held", row.held_ms, HELD))
            for label, ms, colour in parts:
                shown = label if row.place == 0 else None
                axes.barh(names[row.place], ms / 1000, left=left, color=colour, label=shown, height=0.6)
                left += ms / 1000
            axes.text(left, names[row.place], f"  ready after {row.ended_s:.1f} s", va="center", fontsize=9)
        axes.set_title(mode, loc="left", fontsize=10)
        axes.invert_yaxis()
        axes.margins(x=0.22)
        axes.spines[["top", "right"]].set_visible(False)
    panels[-1].set_xlabel("seconds since the request was sent")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper right", ncols=3, frameon=False)
    for kind in ("png", "svg"):
        figure.savefig(path.with_suffix(f".{kind}"), dpi=150)
    plt.close(figure)


def latency(path: Path, title: str, found: Mapping[str, Mapping[str, Mapping[str, float]]]) -> None:
    """Mean, p50 and p99 by mode; medians of the repeats with their ranges."""
    figure, axes = plt.subplots(figsize=(9, 4.2), layout="constrained")
    for place, (name, label) in enumerate((("mean_s", "mean"), ("p50_s", "p50"), ("p99_s", "p99"))):
        _bars(axes, [found[mode][name] for mode in found], at=place - 1, label=label)
    axes.set_xticks(range(len(found)), [mode.replace(", ", ",\n") for mode in found], fontsize=9)
    axes.set_ylabel("latency, s")
    axes.set_title(title, loc="left", fontsize=10)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _bars(axes: Any, spreads: Sequence[Mapping[str, float]], *, at: int, label: str) -> None:
    middle = [s["median"] for s in spreads]
    error = [[s["median"] - s["min"] for s in spreads], [s["max"] - s["median"] for s in spreads]]
    axes.bar([i + 0.27 * at for i in range(len(spreads))], middle, 0.25, yerr=error, capsize=2, label=label)


def share(path: Path, title: str, found: Mapping[str, Mapping[str, float]]) -> None:
    """Throughput by mode as a share of continuous batching's."""
    figure, axes = plt.subplots(figsize=(8, 0.9 + 0.5 * len(found)), layout="constrained")
    middle = [100 * s["median"] for s in found.values()]
    error = [
        [100 * (s["median"] - s["min"]) for s in found.values()],
        [100 * (s["max"] - s["median"]) for s in found.values()],
    ]
    bars = axes.barh(list(found), middle, xerr=error, capsize=3, color=RAN)
    axes.bar_label(bars, fmt=" %.0f %%", label_type="center", color="white")
    axes.axvline(100, color=HELD, linewidth=1)
    axes.invert_yaxis()
    axes.set_xlabel("throughput, % of continuous batching's")
    axes.set_title(title, loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
