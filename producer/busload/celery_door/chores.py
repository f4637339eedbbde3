"""What the housekeeping tasks do, each for one interval, and what they report."""

from __future__ import annotations

import json
from typing import Any, ClassVar, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from busload_shared.replies import DeadLetter

from .door import Line

_PAGE = 100
_OVERDUE_COUNTED = 1000
_SAMPLES = 5


class Interval(NamedTuple):
    """The `number`-th interval since 1970 of this kind, on the Redis clock."""

    kind: str
    number: int
    now_ms: float


class _Report(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="ignore")

    queue: str
    at_ms: float


class ExpiryReport(_Report):
    """Requests whose time ran out: since ever, since the last report, and those that wait past their deadline now."""

    expired: int
    expired_since: int | None
    overdue: int
    oldest_waiting_ms: float | None
    parked: int
    landing: int


class DeadLetterDigest(_Report):
    """Dead letters by code, with the newest ids of each."""

    letters: int
    unreadable: int
    by_code: dict[str, int]
    newest: dict[str, tuple[str | None, ...]]
    oldest_at_ms: float | None


class MetricsRollup(_Report):
    """The queue's counters, and by how much each grew since the last roll-up."""

    counters: dict[str, int]
    grown: dict[str, int] | None
    waiting: int
    retry: int
    inflight: int
    dead: int
    workers: int


class RedrivePlan(BaseModel):
    """Which letters are put back: of these codes, `older_s` old at least and twice as old after each time, at most
    `at_most` in an interval and `limit_per_id` for an id, within `remember_s`."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    reasons: tuple[str, ...] = Field(min_length=1)
    older_s: float = Field(default=600, gt=0)
    at_most: int = Field(default=100, ge=1, le=10_000)
    limit_per_id: int = Field(default=3, ge=1)
    remember_s: float = Field(default=604_800, gt=0)


class RedriveReport(_Report):
    """What was put back, and what had been put back too often."""

    redriven: tuple[str, ...]
    given_up: int
    too_young: int


async def expiry_report(line: Line, interval: Interval) -> ExpiryReport:
    """See ExpiryReport."""
    info = await line.queue.info()
    before = await _previous(line, interval, ExpiryReport)
    expired = info.counters.get("expired", 0)
    parked, landing = await line.parking.counts()
    return ExpiryReport(
        queue=info.queue,
        at_ms=interval.now_ms,
        expired=expired,
        expired_since=None if before is None else max(0, expired - before.expired),
        overdue=len(await line.queue.overdue(at_most=_OVERDUE_COUNTED)),
        oldest_waiting_ms=info.oldest_waiting_ms,
        parked=parked,
        landing=landing,
    )


async def dead_letter_digest(line: Line, interval: Interval) -> DeadLetterDigest:
    """See DeadLetterDigest. Reads all letters, a hundred at a time."""
    info = await line.queue.info()
    by_code: dict[str, int] = {}
    newest: dict[str, tuple[str | None, ...]] = {}
    oldest: float | None = None
    for start in range(0, info.dead, _PAGE):
        for letter in await line.queue.dead_letters(start=start, count=_PAGE):
            by_code[letter.code] = by_code.get(letter.code, 0) + 1
            newest[letter.code] = (*newest.get(letter.code, ()), letter.id)[:_SAMPLES]
            oldest = letter.at_ms if oldest is None else min(oldest, letter.at_ms)
    return DeadLetterDigest(
        queue=info.queue,
        at_ms=interval.now_ms,
        letters=info.dead,
        unreadable=max(0, info.dead - sum(by_code.values())),
        by_code=by_code,
        newest=newest,
        oldest_at_ms=oldest,
    )


async def metrics_rollup(line: Line, interval: Interval) -> MetricsRollup:
    """See MetricsRollup."""
    info = await line.queue.info()
    before = await _previous(line, interval, MetricsRollup)
    grown = None
    if before is not None:
        grown = {name: value - before.counters.get(name, 0) for name, value in info.counters.items()}
    return MetricsRollup(
        queue=info.queue,
        at_ms=interval.now_ms,
        counters=info.counters,
        grown=grown,
        waiting=info.waiting,
        retry=info.retry,
        inflight=info.inflight,
        dead=info.dead,
        workers=len(info.workers),
    )


async def redrive(line: Line, interval: Interval, *, plan: RedrivePlan) -> RedriveReport:
    """Put letters back, the oldest first. Run again after a crash it goes on: what is back is no letter any more."""
    info = await line.queue.info()
    redriven: list[str] = []
    given_up = too_young = 0
    end = info.dead
    while end > 0 and len(redriven) < plan.at_most:
        start = max(0, end - _PAGE)
        for letter in reversed(await line.queue.dead_letters(start=start, count=end - start)):
            if letter.id is None or letter.code not in plan.reasons or len(redriven) >= plan.at_most:
                continue
            times = await line.reports.times_redriven(letter.id)
            if times >= plan.limit_per_id:
                given_up += 1
            elif interval.now_ms - letter.at_ms < plan.older_s * 1000 * 2**times:
                too_young += 1
            elif await _put_back(line, letter, letter.id, times, plan):
                redriven.append(letter.id)
        end = start
    return RedriveReport(
        queue=info.queue,
        at_ms=interval.now_ms,
        redriven=tuple(redriven),
        given_up=given_up,
        too_young=too_young,
    )


async def _put_back(line: Line, letter: DeadLetter, request_id: str, times: int, plan: RedrivePlan) -> bool:
    # counted first: a crash between them must not make it endless
    await line.reports.count_redrive(request_id, times + 1, ttl_s=plan.remember_s)
    return await line.queue.redrive(letter)


async def _previous(line: Line, interval: Interval, model: Any) -> Any:
    """The report of the interval before this; None without one that this version can read."""
    found = await line.reports.read(interval.kind, interval.number - 1)
    try:
        return None if found is None else model.model_validate_json(found)
    except ValidationError:
        return None


def plain(report: bytes) -> Any:
    """A report as Celery's serializers take it."""
    return json.loads(report)
