"""The numbers of a small load. Times in ms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from ..demo.summary import batches_of, new_tokens, percentile
from .load import Run


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Of one kind of time, ms."""

    p50: float
    p90: float
    p99: float
    most: float

    @classmethod
    def of(cls, times: Sequence[float]) -> Quantiles:
        """All 0 without times."""
        p50, p90, p99 = (percentile(times, share) for share in (0.5, 0.9, 0.99))
        return cls(p50, p90, p99, max(times, default=0.0))


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What a load showed. `succeeded` and `failed` are requests; those without any result count as failed.

    `latency` is what the producer saw; `waited` until the run began and `run` from there to the last token are the
    worker's. `fill` is the mean share of seats taken, None where no worker told its seats. `sizes` counts batches by
    their rows, other producers' rows included.
    """

    succeeded: int
    failed: int
    elapsed_s: float
    requests_per_s: float
    tokens_per_s: float
    latency: Quantiles
    waited: Quantiles
    run: Quantiles
    batches: int
    mean_size: float
    fill: float | None
    sizes: dict[int, int]
    triggers: dict[str, int]
    complaints: tuple[str, ...]


def report_on(run: Run, *, seats: int) -> LoadReport:
    """Sum it up; `seats` is the batch size of the workers, 0 if not known."""
    results = [sample.result for sample in run.samples]
    done = [result for result in results if result.status == "succeeded"]
    bad = [
        f"{result.status}: {result.error.message}"
        for result in results
        if result.status != "succeeded" and result.error
    ]
    bad += [str(error) for error in run.errors]
    batches = batches_of(results)
    timings = [result.timing for result in done if result.timing is not None]
    mean_size = fmean([batch.size for batch in batches] or [0.0])
    return LoadReport(
        succeeded=len(done),
        failed=run.over - len(done),
        elapsed_s=run.elapsed_s,
        requests_per_s=len(done) / run.elapsed_s,
        tokens_per_s=sum(map(new_tokens, done)) / run.elapsed_s,
        latency=Quantiles.of([sample.latency_s * 1000 for sample in run.samples]),
        waited=Quantiles.of([timing.waited_ms for timing in timings]),
        run=Quantiles.of([timing.run_ms for timing in timings]),
        batches=len(batches),
        mean_size=mean_size,
        fill=mean_size / seats if seats else None,
        sizes=dict(sorted(Counter(batch.size for batch in batches).items())),
        triggers=dict(Counter(batch.trigger for batch in batches)),
        complaints=tuple(f"{count} times {text}" for text, count in Counter(bad).most_common(3)),
    )
