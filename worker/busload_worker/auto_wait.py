"""The learned wait of one worker: what it saw of arrivals and of its own batches, and what to do now."""

from __future__ import annotations

import math
from typing import NamedTuple

from busload_shared.curve import ServiceCurve
from busload_shared.replies import Claim, NotYet
from busload_shared.wait_info import Hazard, WaitInfo

from .batch_times import BatchTimes
from .engines.protocol import RowDone
from .hazards import Hazards, Kind
from .waiting_rule import Decision, wait_on


class _Event(NamedTuple):
    """What the time is counted from: `u_ms` since then."""

    kind: Kind
    u_ms: float


class AutoWait:
    """Times are Unix ms on the Redis clock. `cap_ms` is the longest that the oldest ever waits for more."""

    def __init__(self, *, cap_ms: float) -> None:
        self.hazards = Hazards()
        self.times = BatchTimes()
        self.reason = ""
        self._cap_ms = cap_ms
        self._ended_ms: float | None = None
        self._open_since_ms: float | None = None
        self._rows: list[tuple[int, int]] = []

    def boarded(self, claim: Claim, *, alone: bool) -> None:
        """A batch was claimed. `alone` while no other worker takes from the queue, in order: then no arrival is
        missing."""
        self._open_since_ms = None
        if claim.trigger != "retry":
            arrivals = [seat.element.arrival_ms for seat in claim.seats if seat.element.arrival_ms > 0]
            self.hazards.observe(arrivals, self._ended_ms, gapless=alone)

    def row(self, row: RowDone) -> None:
        """A row of the running batch ended."""
        self._rows.append((row.usage.prompt_tokens, row.usage.completion_tokens))

    def ended(self, now_ms: float, curve: ServiceCurve | None) -> None:
        """The batch is over."""
        self._ended_ms = now_ms
        self.times.learn(curve, self._rows)
        self._rows = []

    def decide(self, look: NotYet, *, size: int) -> Decision:
        """Whether those who wait now, fewer than `size`, wait for more."""
        if self._open_since_ms is None:
            self._open_since_ms = look.now_ms
        event = self._last_event(look)
        decision = wait_on(
            look.depth,
            event.u_ms,
            kind=event.kind,
            size=size,
            tau=self.times,
            hazards=self.hazards,
            waited_ms=look.now_ms - self._open_since_ms,
            cap_ms=self._cap_ms if look.due_in_ms is None else look.due_in_ms,
            since_arrival_ms=look.newest_ms,
        )
        self.reason = decision.reason
        return decision

    def info(self) -> WaitInfo:
        """The last reason and the learned tables, for people."""
        return WaitInfo(reason=self.reason, after_arrival=self._table("arrival"), after_batch=self._table("completion"))

    def _table(self, kind: Kind) -> tuple[Hazard, ...]:
        return tuple(
            Hazard(
                from_ms=round(line.from_ms, 3),
                to_ms=round(line.to_ms, 3) if math.isfinite(line.to_ms) else None,
                arrivals=round(line.arrivals, 2),
                waited_ms=round(line.waited_ms, 1),
            )
            for line in self.hazards.table(kind)
        )

    def _last_event(self, look: NotYet) -> _Event:
        since_arrival = look.newest_ms if look.newest_ms is not None else 0.0
        if self._ended_ms is None or look.now_ms - since_arrival >= self._ended_ms:
            return _Event("arrival", since_arrival)
        return _Event("completion", max(0.0, look.now_ms - self._ended_ms))
