"""The housekeeping tasks. Each does an interval once, whoever runs it and however often."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from pydantic import BaseModel

from busload_shared.errors import SettingsInvalid
from busload_shared.reports import RUNNING

from . import chores
from .door import Door, Line
from .schedule import DEAD_LETTER_DIGEST, EXPIRY_REPORT, METRICS_ROLLUP, REDRIVE

_logger = logging.getLogger(__name__)

Chore = Callable[[Line, chores.Interval], Awaitable[BaseModel]]

_LEASE_S = 120.0


def add_to(app: Any, door: Door) -> None:
    """Add the tasks to a Celery application, and to no other: shared ones would go to every application there is."""

    @app.task(name=EXPIRY_REPORT, shared=False)  # type: ignore[untyped-decorator]
    def expiry_report(interval_s: float = 300, kept_s: float = 604_800) -> Any:
        return once(door, "expiry", chores.expiry_report, interval_s, kept_s)

    @app.task(name=DEAD_LETTER_DIGEST, shared=False)  # type: ignore[untyped-decorator]
    def dead_letter_digest(interval_s: float = 3600, kept_s: float = 604_800) -> Any:
        return once(door, "dead", chores.dead_letter_digest, interval_s, kept_s)

    @app.task(name=METRICS_ROLLUP, shared=False)  # type: ignore[untyped-decorator]
    def metrics_rollup(interval_s: float = 60, kept_s: float = 172_800) -> Any:
        return once(door, "metrics", chores.metrics_rollup, interval_s, kept_s)

    @app.task(name=REDRIVE, shared=False)  # type: ignore[untyped-decorator]
    def redrive(reasons: list[str], interval_s: float = 600, kept_s: float = 604_800, **rules: float) -> Any:
        try:
            plan = chores.RedrivePlan(reasons=tuple(reasons), **rules)
        except ValueError as error:
            raise SettingsInvalid(f"busload.redrive: {error}") from None
        return once(door, "redrive", partial(chores.redrive, plan=plan), interval_s, kept_s)


def once(door: Door, kind: str, chore: Chore, interval_s: float, kept_s: float) -> Any:
    """Do the chore for the interval that is now, or give the report of it. None while another is at it."""
    report = door.do(lambda line: _once(line, kind, chore, interval_s, kept_s))
    if report is not None:
        _logger.info("%s of %s: %s", kind, door.settings.queue, report)
    return report


async def _once(line: Line, kind: str, chore: Chore, interval_s: float, kept_s: float) -> Any:
    if interval_s <= 0 or kept_s < 2 * interval_s:
        raise SettingsInvalid(f"interval_s={interval_s}, kept_s={kept_s}: keep reports for two intervals at least")
    now_ms = (await line.queue.info()).now_ms
    interval = chores.Interval(f"{kind}-{interval_s:g}", int(now_ms // (interval_s * 1000)), now_ms)
    done = await line.reports.begin(interval.kind, interval.number, lease_s=_LEASE_S)
    if done == RUNNING:
        return None
    if done is not None:
        return chores.plain(done)
    report = (await chore(line, interval)).model_dump_json().encode()
    await line.reports.write(interval.kind, interval.number, report, ttl_s=kept_s)
    return chores.plain(report)
