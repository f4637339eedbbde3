"""How much sooner a batch is claimed than its oldest is due, so that it begins to run when that is due. Pure."""

from __future__ import annotations

from .answers import Ride

MOST_MS = 2.0
"""A head start makes up for the way from Redis to the engine, not for an engine that begins slowly."""

MOST_SHARE = 0.1
"""Of the wait: who waits so long waits for company."""

STEP = 0.1
"""Of the lateness seen, per batch; what is later than `MOST_MS` counts as that: a slow moment is no rule."""

PUNCTUAL_MS = 2.0
"""A batch that was claimed later than this after its oldest was due had to wait for the engine, and tells nothing."""


class HeadStart:
    """Learned from the batches that left because their oldest had waited `max_wait_ms`, none at first."""

    def __init__(self, max_wait_ms: float) -> None:
        self._max_wait_ms = max_wait_ms
        self._most_ms = min(MOST_MS, MOST_SHARE * max_wait_ms)
        self.ms = 0.0

    def began(self, ride: Ride) -> None:
        """This batch began to run."""
        claim = ride.claim
        arrivals = [seat.element.arrival_ms for seat in claim.seats if seat.element.arrival_ms > 0]
        if claim.trigger != "timeout" or not arrivals or ride.started_ms <= 0:
            return
        due_ms = min(arrivals) + self._max_wait_ms
        if claim.claimed_ms - due_ms <= PUNCTUAL_MS:
            late_ms = max(-MOST_MS, min(MOST_MS, ride.started_ms - due_ms))
            self.ms = max(0.0, min(self._most_ms, self.ms + STEP * late_ms))
