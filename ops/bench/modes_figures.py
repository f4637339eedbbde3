"""What a run of the modes benchmark comes to: figures of one run, ratios of two, medians and ranges of many. Pure."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Served:
    """One answered request: its place among the run's, what the client saw, what its result tells."""

    place: int
    tokens: int
    latency_s: float
    ended_s: float
    """When its result was in the client's hands, from the run's start."""
    batch: str = ""
    size: int = 0
    waited_ms: float = 0.0
    run_ms: float = 0.0
    held_ms: float = 0.0
    gap_ms: float | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one run. `fill` is rows by seats, `effective` the tokens by seats times the longest row, over all batches;
    `engine_share` is the part of the run in which a batch ran; `gap_ms` the median pause between two batches."""

    requests: int
    mean_s: float
    p50_s: float
    p99_s: float
    per_s: float
    tokens_per_s: float
    batches: int = 0
    fill: float = 0.0
    effective: float = 0.0
    held_ms: float = 0.0
    engine_share: float = 0.0
    gap_ms: float = 0.0


def quantile(values: Sequence[float], share: float) -> float:
    """The value that `share` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, round(share * len(ordered) + 0.5) - 1))]


def figures(rows: Sequence[Served], *, seats: int) -> Figures:
    """Of these answers, from the run's start to the last of them."""
    took = max(row.ended_s for row in rows)
    latencies = [row.latency_s for row in rows]
    batches = [batch for name, batch in batches_of(rows).items() if name]
    longest = [max(row.run_ms for row in batch) for batch in batches]
    gaps = [batch[0].gap_ms for batch in batches if batch[0].gap_ms is not None]
    return Figures(
        requests=len(rows),
        mean_s=statistics.fmean(latencies),
        p50_s=quantile(latencies, 0.5),
        p99_s=quantile(latencies, 0.99),
        per_s=len(rows) / took,
        tokens_per_s=sum(row.tokens for row in rows) / took,
        batches=len(batches),
        fill=statistics.fmean(len(batch) / seats for batch in batches) if batches else 0.0,
        effective=effective(batches, seats=seats) if batches else 0.0,
        held_ms=statistics.fmean(row.held_ms for row in rows),
        engine_share=sum(longest) / 1000 / took,
        gap_ms=statistics.median(gaps) if gaps else 0.0,
    )


def batches_of(rows: Sequence[Served]) -> Mapping[str, list[Served]]:
    """The rows of each batch."""
    batches: dict[str, list[Served]] = defaultdict(list)
    for row in rows:
        batches[row.batch].append(row)
    return batches


def effective(batches: Sequence[Sequence[Served]], *, seats: int) -> float:
    """Tokens made, by those that the seats could have made while the batches ran."""
    made = sum(row.tokens for batch in batches for row in batch)
    return made / sum(seats * max(row.tokens for row in batch) for batch in batches)


def same_texts(ours: Sequence[Served], others: Sequence[Served]) -> tuple[int, int, int]:
    """Of the requests that rode in batches of the very same requests in both runs: how many have the same text, and
    how many they are; then how many there are in all."""
    members = [_companions(rows) for rows in (ours, others)]
    texts = [{row.place: (row.text, row.tokens) for row in rows} for rows in (ours, others)]
    together = [place for place in members[0] if members[0][place] == members[1].get(place)]
    return sum(texts[0][place] == texts[1][place] for place in together), len(together), len(ours)


def _companions(rows: Sequence[Served]) -> dict[int, frozenset[int]]:
    found = {}
    for batch in batches_of(rows).values():
        places = frozenset(row.place for row in batch)
        found.update(dict.fromkeys(places, places))
    return found


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, range and number."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "n": len(values)}


def summary(runs: Mapping[str, Mapping[int, Figures]], base: str) -> dict[str, dict[str, dict[str, float]]]:
    """For each mode, of each figure its spread, and under `… ratio` that of its ratios to `base` repeat by repeat."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for mode, repeats in runs.items():
        absolute, ratios = defaultdict(list), defaultdict(list)
        for repeat, one in repeats.items():
            beside = runs[base].get(repeat)
            for name, value in asdict(one).items():
                absolute[name].append(float(value))
                if beside is not None and (other := float(getattr(beside, name))):
                    ratios[f"{name} ratio"].append(value / other)
        found[mode] = {name: spread(values) for name, values in (absolute | ratios).items()}
    return found


def verdict(name: str, values: Sequence[float], *, at_least: float | None = None, at_most: float | None = None) -> str:
    """One line: the median and range of these ratios, beside what must hold."""
    s = spread(values)
    good = (at_least is None or s["median"] >= at_least) and (at_most is None or s["median"] <= at_most)
    limits = ((">=", at_least), ("<=", at_most))
    wanted = " and ".join(f"{sign} {limit:g}" for sign, limit in limits if limit is not None)
    mark = f"wanted {wanted}: {'yes' if good else 'NO'}" if wanted else ""
    return f"{name:<62} {s['median']:6.3f}  ({s['min']:.3f} to {s['max']:.3f}, n={len(values)})  {mark}".rstrip()
