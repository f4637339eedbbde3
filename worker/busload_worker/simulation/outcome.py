"""What a run is summed up to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Outcome:
    """Times in ms. `fill` is rows by seats; `effective` the tokens of use by the rows times the longest
    row; `held_ms` how long a row was, or with early release would have been, held after its own end; `utilisation`
    the share of the time in which workers ran."""

    requests: int
    batches: int
    per_s: float
    mean_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    longest_ms: float
    mean_wait_ms: float
    longest_wait_ms: float
    fill: float
    effective: float
    held_ms: float
    utilisation: float


@dataclass(slots=True)
class Tally:
    """Filled while a run goes on."""

    latencies: list[float] = field(default_factory=list)
    waited_ms: float = 0.0
    longest_wait_ms: float = 0.0
    held_ms: float = 0.0
    busy_ms: float = 0.0
    batches: int = 0
    rows: int = 0
    tokens: int = 0
    padded: int = 0
    began_ms: float = math.inf
    ended_ms: float = 0.0

    def batch(self, began_ms: float, took_ms: float, lengths: Sequence[int]) -> None:
        """A batch ran."""
        self.batches += 1
        self.rows += len(lengths)
        self.tokens += sum(lengths)
        self.padded += len(lengths) * max(lengths)
        self.busy_ms += took_ms
        self.began_ms = min(self.began_ms, began_ms)
        self.ended_ms = max(self.ended_ms, began_ms + took_ms)

    def row(self, latency_ms: float, waited_ms: float, held_ms: float) -> None:
        """A row of it was answered."""
        self.latencies.append(latency_ms)
        self.waited_ms += waited_ms
        self.longest_wait_ms = max(self.longest_wait_ms, waited_ms)
        self.held_ms += held_ms

    def outcome(self, *, size: int, workers: int) -> Outcome:
        """The figures."""
        latencies, rows = sorted(self.latencies), max(1, len(self.latencies))
        span_ms = max(1e-9, self.ended_ms - self.began_ms) if self.batches else 1e-9
        return Outcome(
            requests=len(latencies),
            batches=self.batches,
            per_s=self.rows / span_ms * 1000,
            mean_ms=sum(latencies) / rows,
            p50_ms=percentile(latencies, 0.50),
            p95_ms=percentile(latencies, 0.95),
            p99_ms=percentile(latencies, 0.99),
            longest_ms=latencies[-1] if latencies else 0.0,
            mean_wait_ms=self.waited_ms / rows,
            longest_wait_ms=self.longest_wait_ms,
            fill=self.rows / max(1, self.batches * size),
            effective=self.tokens / max(1, self.padded),
            held_ms=self.held_ms / rows,
            utilisation=self.busy_ms / (span_ms * workers),
        )


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value that this share of them does not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0
