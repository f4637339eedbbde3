"""The peers' figures as bars, one panel for each question; pale is what a bare wire drives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .serving import BARE, ROWS

PANELS = (
    ("closed 64, 0 ms", "per_s", "requests/s, 64 under way, 0 ms", True),
    ("closed 256, 0 ms", "per_s", "requests/s, 256 under way, 0 ms", True),
    ("5/s, 0 ms", "p50_over_window_ms", "p50 over the window at 5/s, ms", True),
    ("closed 256, 20+n ms", "share_of_limit", "share of the limit, 20 ms + 1 ms per item", False),
    ("half, 20+n ms", "p99_ms", "p99 at half the limit, ms", True),
    ("nine tenths, 20+n ms", "p99_ms", "p99 at nine tenths of the limit, ms", True),
)


def draw(summaries: dict[str, dict[str, dict[str, dict[str, float]]]], path: Path) -> None:
    """Median with its range for each peer that has the figure."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(2, 3, figsize=(16, 8), layout="constrained")
    for axes, (scenario, name, title, logarithmic) in zip(panels.flat, PANELS, strict=True):
        rows = {peer: found[name] for peer, found in summaries.get(scenario, {}).items() if name in found}
        axes.set_visible(bool(rows))
        _bars(axes, rows)
        axes.set_title(title)
        if logarithmic and rows and all(row["min"] > 0 for row in rows.values()):
            axes.set_xscale("log")
    figure.suptitle("Full colour: driven by a library; pale: by a bare wire")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _bars(axes: Any, rows: dict[str, dict[str, float]]) -> None:
    for place, (peer, row) in enumerate(reversed(rows.items())):
        below, above = row["median"] - row["min"], row["max"] - row["median"]
        colour = "tab:orange" if peer.startswith("busload") else "tab:blue"
        alpha = 0.45 if ROWS[peer].client == BARE else 1.0
        axes.barh(place, row["median"], xerr=[[below], [above]], color=colour, alpha=alpha)
        axes.annotate(f" {row['median']:,.5g}", (row["max"], place), va="center")
    axes.set_yticks(range(len(rows)), list(reversed(rows)))
    axes.margins(x=0.2)
