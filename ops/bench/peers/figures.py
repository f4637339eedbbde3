"""Numbers out of what the client saw; pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

Repeats = dict[int, dict[str, float]]
"""A peer's figures, by the number of the repeat; one that could not be measured is not there."""
Runs = dict[str, dict[str, Repeats]]
"""What the clients saw: scenario, peer, repeat."""


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of the values lie."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def limit_per_s(*, batch: int, base_ms: float, item_ms: float) -> float:
    """Requests a second of a handler that is never idle and always full."""
    return batch / (base_ms + item_ms * batch) * 1000


def figures(seen: Mapping[str, Any], *, window_ms: float, limit: float | None) -> dict[str, float]:
    """One run's figures: rate and its share of the limit, latencies and what they add, mean batch, CPU per 1,000.

    A run without one answer has only its failures.
    """
    done = seen["done"]
    found: dict[str, float] = {"failed": seen["failed"]}
    if not done:
        return found
    found["per_s"] = done / seen["wall_s"]
    found["server_cpu_s_per_1000"] = seen["server_cpu_s"] / done * 1000
    found["client_cpu_s_per_1000"] = seen["client_cpu_s"] / done * 1000
    if seen["batches"]:
        found["mean_batch"] = seen["items"] / seen["batches"]
    if limit:
        found["share_of_limit"] = found["per_s"] / limit
    if latencies := seen.get("latencies_ms"):
        found["p50_ms"], found["p99_ms"] = quantile(latencies, 0.5), quantile(latencies, 0.99)
        found["p50_over_window_ms"] = found["p50_ms"] - window_ms
    return found


def summary(runs: Sequence[Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Median and range of each figure that every run has."""
    names = [name for name in runs[0] if all(name in run for run in runs)] if runs else []
    spreads = {}
    for name in names:
        values = [run[name] for run in runs]
        spreads[name] = {"median": statistics.median(values), "min": min(values), "max": max(values)}
    return spreads


def ratios(ours: Repeats, theirs: Repeats, name: str) -> dict[int, float]:
    """Ours by theirs, repeat by repeat, where both have the figure."""
    both = [repeat for repeat in theirs if repeat in ours and ours[repeat].get(name) and theirs[repeat].get(name)]
    return {repeat: ours[repeat][name] / theirs[repeat][name] for repeat in both}


def table(rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell, the first row the head."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows
    )


def short(told: str) -> str:
    """What a caller got, in a few words."""
    if told == "ok":
        return "answer"
    if told.startswith("nothing within"):
        return told
    return f"error ({told.partition(': ')[2][:60].strip() or told[:60]})"


def neighbours(outcomes: Sequence[tuple[str, float]]) -> str:
    """What the good rows got beside a bad one; the bad one was sent first."""
    bad, good = outcomes[0][0], [told for told, _ in outcomes[1:]]
    answered = sum(told == "ok" for told in good)
    lost = next((short(told) for told in good if told != "ok"), "")
    return f"{answered} of {len(good)} neighbours answered{f', others {lost}' if lost else ''}; bad row: {short(bad)}"


def leaving(answered_s: float, *, run_s: float, left_s: float, running: bool) -> str:
    """Whether the work of a client that left was still done, from when the next one's answer came.

    The next request was sent `left_s` after the first, which takes `run_s`; if the first (`running`) or one
    queued between the two was still run, the next one waits for it.
    """
    stopped = run_s if running else 2 * run_s - left_s
    still = stopped + (run_s - left_s if running else run_s)
    return "stops, noticed" if abs(answered_s - stopped) < abs(answered_s - still) else "is done for nobody"


def killed(outcomes: Sequence[tuple[str, float]]) -> str:
    """What callers got whose worker was killed in the middle."""
    groups: dict[str, list[float]] = {}
    for told, after_s in outcomes:
        groups.setdefault(short(told), []).append(after_s)
    return "; ".join(
        f"{len(times)} of {len(outcomes)}: {what} after {max(times):.1f} s" for what, times in groups.items()
    )
