"""From results to the numbers the demo ends with. Pure; times in milliseconds unless a name says otherwise."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from busload_shared.result import Result, Timing, Trigger


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch as its answered rows tell of it; some numbers still grow while rows are on their way.

    `waited_ms` is the longest any of its rows waited, `run_ms` the time to its last token so far.
    """

    id: str
    trigger: Trigger
    size: int
    answered: int
    claimed_ms: float
    waited_ms: float
    run_ms: float
    tokens: int

    @property
    def is_back(self) -> bool:
        return self.answered == self.size


@dataclass(frozen=True, slots=True)
class Held:
    """How long rows sit on after their own last token, mean and longest."""

    mean_ms: float
    most_ms: float


@dataclass(frozen=True, slots=True)
class OneByOne:
    """What the same tokens would cost without batches: `run_ms`, scaled by tokens from `sample` requests run alone."""

    run_ms: float
    sample: int


@dataclass(frozen=True, slots=True)
class Summary:
    """`was_held` is what happened, `would_be_held` what a worker that releases whole batches only would do.

    `run_ms` is the time in which batches ran, `tokens` are the new ones, and latency goes from enqueue to release.
    """

    requests: int
    batches: int
    by_trigger: dict[Trigger, int]
    mean_size: float
    tokens: int
    run_ms: float
    p50_ms: float
    p99_ms: float
    was_held: Held
    would_be_held: Held

    @property
    def tokens_per_s(self) -> float:
        return 1000 * self.tokens / self.run_ms if self.run_ms else 0.0


def batches_of(results: Sequence[Result]) -> list[Batch]:
    """The batches these results rode in, in the order in which they left."""
    rows: dict[str, list[Result]] = {}
    for result in results:
        if result.batch is not None:
            rows.setdefault(result.batch.id, []).append(result)
    return sorted((_batch(name, riders) for name, riders in rows.items()), key=lambda batch: batch.claimed_ms)


def _batch(name: str, riders: Sequence[Result]) -> Batch:
    infos = [result.batch for result in riders if result.batch is not None]
    timings = [result.timing for result in riders if result.timing is not None]
    return Batch(
        id=name,
        trigger=infos[0].trigger,
        size=infos[0].size,
        answered=len(riders),
        claimed_ms=min((timing.claimed_ms or timing.finished_ms for timing in timings), default=0.0),
        waited_ms=max((timing.waited_ms for timing in timings), default=0.0),
        run_ms=max((timing.run_ms for timing in timings), default=0.0),
        tokens=sum(map(new_tokens, riders)),
    )


def new_tokens(result: Result) -> int:
    """Tokens the model wrote for this request."""
    return result.usage.completion_tokens if result.usage else 0


def summarize(results: Sequence[Result]) -> Summary:
    """Sum up the results of requests that all succeeded; others are left out."""
    done = [result for result in results if result.status == "succeeded"]
    batches = batches_of(done)
    timings = {result.id: result.timing for result in done if result.timing is not None}
    ends = {batch.id: batch.run_ms for batch in batches}
    own_end = {result.id: ends[result.batch.id] for result in done if result.batch is not None}
    latencies = [latency_ms(timing) for timing in timings.values()]
    return Summary(
        requests=len(done),
        batches=len(batches),
        by_trigger=dict(Counter(batch.trigger for batch in batches)),
        mean_size=fmean([batch.size for batch in batches] or [0.0]),
        tokens=sum(map(new_tokens, done)),
        run_ms=sum(batch.run_ms for batch in batches),
        p50_ms=percentile(latencies, 0.50),
        p99_ms=percentile(latencies, 0.99),
        was_held=_held([timing.held_ms for timing in timings.values()]),
        would_be_held=_held([own_end[name] - timing.run_ms for name, timing in timings.items() if name in own_end]),
    )


def one_by_one(alone: Sequence[Result], *, tokens: int) -> OneByOne | None:
    """Scale the time of requests that ran alone to `tokens`; None without such requests."""
    sampled = sum(map(new_tokens, alone))
    if not sampled:
        return None
    run_ms = sum(result.timing.run_ms for result in alone if result.timing is not None)
    return OneByOne(run_ms=run_ms * tokens / sampled, sample=len(alone))


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed; 0 without values."""
    if not values:
        return 0.0
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def failures(results: Sequence[Result], *, proof_needed: bool) -> list[str]:
    """A line for each result that did not succeed or whose batch was not proven to have run as one unit."""
    lines = []
    for result in results:
        if result.status != "succeeded":
            reason = f": {result.error.code}, {result.error.message}" if result.error else ""
            lines.append(f"{result.id} {result.status}{reason}")
            continue
        proof = result.timing.proof if result.timing else None
        if proof is None and proof_needed:
            lines.append(f"{result.id} came without the proof that its batch ran as one unit")
        elif proof is not None and not proof.holds:
            lines.append(
                f"{result.id}: its batch did not run as one unit (spread {proof.spread_ms} ms, "
                f"{proof.preemptions} preemptions, gap {proof.gap_ms} ms)"
            )
    return lines


def latency_ms(timing: Timing) -> float:
    """From enqueue to release."""
    return timing.waited_ms + timing.run_ms + timing.held_ms


def _held(times: Sequence[float]) -> Held:
    return Held(mean_ms=fmean(times or [0.0]), most_ms=max(times, default=0.0))
