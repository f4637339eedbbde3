"""The table at the end of a run."""

from __future__ import annotations

from collections.abc import Iterable

from tests.chaos.ledger import Ledger
from tests.chaos.options import Options
from tests.chaos.oracle import Verdict
from tests.chaos.recovery import Met, quantile

HEAD = (
    f"{'fault':<38} {'count':>5} {'outstanding':>11} {'lost':>5} {'twice':>5} {'re-run':>6} {'convicted':>9} "
    f"{'recovery p50 / max, s':>22}"
)


def table(mets: list[Met], verdict: Verdict) -> list[str]:
    """A line for each kind of fault. A request that several faults met is in the line of each."""
    kinds: dict[str, list[Met]] = {}
    for met in mets:
        kinds.setdefault(met.fault.kind, []).append(met)
    return [HEAD, *(_line(kind, kinds[kind], verdict) for kind in sorted(kinds))]


def _line(kind: str, mets: list[Met], verdict: Verdict) -> str:
    asked = {one.id: one for met in mets for one in met.requests}
    times = [met.slowest_s for met in mets if met.slowest_s is not None]
    idle = sum(met.fault.note == "never came" for met in mets)
    return (
        f"{kind:<38} {len(mets):>5} {len(asked):>11,} {len(asked.keys() & verdict.lost):>5} "
        f"{len(asked.keys() & verdict.doubled):>5} {sum(one.attempts > 1 for one in asked.values()):>6} "
        f"{len(asked.keys() & verdict.convicted):>9} {quantile(times, 0.5):>14.2f} / {quantile(times, 1):.2f}"
        + (f"   ({idle} found nothing to hit)" if idle else "")
    )


def summary(options: Options, ledger: Ledger, mets: list[Met], verdict: Verdict) -> tuple[list[str], bool]:
    """The lines under the table, and whether all promises were kept."""
    times = [met.slowest_s for met in mets if met.slowest_s is not None]
    p50, p99, slowest = (quantile(times, share) for share in (0.5, 0.99, 1))
    late = p99 > options.bound_s
    judged = ("BROKEN" if late else "kept") + ("" if options.bound else " (not judged)")
    took = [one.heard_at - one.sent_at for one in ledger.asked.values() if one.heard_at is not None]
    lines = [
        f"{len(ledger.faults):,} faults over {len(ledger.asked):,} requests: {len(verdict.lost)} lost, "
        f"{len(verdict.doubled)} answered twice, {len(verdict.wrong)} wrong, {len(verdict.convicted)} innocents "
        f"convicted, {sum(one.poison is not None for one in ledger.asked.values())} poison, "
        f"{sum(one.attempts > 1 and one.poison is None for one in ledger.asked.values()):,} re-run",
        f"recovery p50 {p50:.2f} s, p99 {p99:.2f} s, max {slowest:.2f} s; the bound for p99 is lease + 1 s = "
        f"{options.bound_s:g} s: {judged}",
        f"latency of all requests p50 {quantile(took, 0.5):.3f} s, p99 {quantile(took, 0.99):.2f} s, "
        f"max {quantile(took, 1):.2f} s",
        *_slowest(mets, options),
        *(f"BROKEN: {complaint}" for complaint in verdict.complaints[:20]),
        *_named("lost", verdict.lost),
        *(f"  lost: {_around(ledger, request_id)}" for request_id in sorted(verdict.lost)[:10]),
        *_named("answered twice", verdict.doubled),
        *_named("wrong answer", verdict.wrong),
        *_named("convicted though innocent", verdict.convicted),
    ]
    return lines, verdict.kept and not (late and options.bound)


def _slowest(mets: list[Met], options: Options) -> list[str]:
    slow = sorted(
        (met for met in mets if (met.slowest_s or 0) > options.bound_s), key=lambda met: -(met.slowest_s or 0)
    )
    return [f"  slow: {met.told()}" for met in slow[:10]]


def _around(ledger: Ledger, request_id: str) -> str:
    """When it was sent, and what happened then; times in s from its sending."""
    sent = ledger.asked[request_id].sent_at
    near = [fault for fault in ledger.faults if fault.began_at < sent + 10 and fault.over_at > sent - 3]
    told = (f"{fault.kind} {fault.began_at - sent:.2f} to {fault.over_at - sent:.2f}" for fault in near)
    return f"{request_id}, sent at {sent:.3f} of the monotonic clock; {', '.join(told)}"


def _named(what: str, ids: Iterable[str]) -> list[str]:
    some = sorted(ids)
    return [f"BROKEN: {what}: {', '.join(some[:10])}{' …' if len(some) > 10 else ''}"] if some else []
