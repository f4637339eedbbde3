"""Plots of a plan: with matplotlib as PNG where it is installed, else as SVG, written here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, BOTTOM = 80, 160, 40, 60
COLOURS = ("#1f5fa8", "#c8501e", "#2f8f4e", "#7a4fa3", "#8a6d3b")
TICKS = 5


@dataclass(frozen=True, slots=True)
class Line:
    """Points under one name. `joined` by a line, or marked one by one."""

    name: str
    points: Sequence[tuple[float, float]]
    joined: bool = True


@dataclass(frozen=True, slots=True)
class Chart:
    """One plot. Both axes begin at 0."""

    title: str
    x: str
    y: str
    lines: Sequence[Line] = field(default_factory=tuple)


def draw(chart: Chart, folder: Path, name: str) -> Path:
    """Write the chart; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    if find_spec("matplotlib") is not None:
        return _matplotlib(chart, folder / f"{name}.png")
    path = folder / f"{name}.svg"
    path.write_text(svg(chart), encoding="utf-8")
    return path


def _matplotlib(chart: Chart, path: Path) -> Path:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH / 100, HEIGHT / 100), layout="constrained")
    axes = figure.add_subplot(title=chart.title, xlabel=chart.x, ylabel=chart.y)
    for line, colour in zip(chart.lines, _colours(chart), strict=True):
        xs, ys = [x for x, _ in line.points], [y for _, y in line.points]
        axes.plot(xs, ys, "o-" if line.joined else "o", label=line.name, color=colour, markersize=4)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)
    return path


def svg(chart: Chart) -> str:
    """The chart as SVG."""
    most_x = _round_up(max((x for line in chart.lines for x, _ in line.points), default=1.0))
    most_y = _round_up(max((y for line in chart.lines for _, y in line.points), default=1.0))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="12"><rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(LEFT, TOP - 16, chart.title, size=15),
        _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 16, chart.x, anchor="middle"),
        f'<g transform="rotate(-90 18 {HEIGHT / 2})">{_text(18, HEIGHT / 2, chart.y, anchor="middle")}</g>',
        *_grid(most_x, most_y),
    ]
    for row, (line, colour) in enumerate(zip(chart.lines, _colours(chart), strict=True)):
        spots = [_spot(x, y, most_x, most_y) for x, y in line.points]
        if line.joined and spots:
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in spots]
        at = TOP + 14 + 20 * row
        parts.append(f'<circle cx="{WIDTH - RIGHT + 20}" cy="{at - 4}" r="4" fill="{colour}"/>')
        parts.append(_text(WIDTH - RIGHT + 30, at, line.name))
    return "\n".join([*parts, "</svg>\n"])


def _grid(most_x: float, most_y: float) -> list[str]:
    parts = []
    for tick in range(TICKS + 1):
        x, y = _spot(most_x * tick / TICKS, most_y * tick / TICKS, most_x, most_y)
        parts.append(f'<path d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(_text(x, HEIGHT - BOTTOM + 18, f"{most_x * tick / TICKS:g}", anchor="middle"))
        parts.append(_text(LEFT - 8, y + 4, f"{most_y * tick / TICKS:g}", anchor="end"))
    return parts


def _spot(x: float, y: float, most_x: float, most_y: float) -> tuple[float, float]:
    return LEFT + (WIDTH - RIGHT - LEFT) * x / most_x, HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * y / most_y


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(text)}</text>'


def _colours(chart: Chart) -> list[str]:
    return [COLOURS[i % len(COLOURS)] for i in range(len(chart.lines))]


def _round_up(value: float) -> float:
    """To a number that is read easily: 1, 2, 2.5 or 5 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next((factor * power for factor in (1, 2, 2.5, 5) if factor * power >= value), 10 * power)
