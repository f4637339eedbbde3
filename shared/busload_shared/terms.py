"""What the queue itself must know of a request: when it is no longer worth running, and before whom it boards."""

from __future__ import annotations

from typing import NamedTuple, Self

from .request import Request

STEP_S = 10.0
"""One point of priority boards like ten seconds of waiting. As STEP_MS in lua/lib/ranking.lua."""


class Terms(NamedTuple):
    """`deadline_ms` is Unix ms, `ttl_ms` counts from arrival; at most one of them is given."""

    priority: int = 0
    deadline_ms: float | None = None
    ttl_ms: float | None = None

    @classmethod
    def of(cls, request: Request) -> Self | None:
        """The request's terms; None for most: no priority and no deadline."""
        if not request.priority and request.deadline is None and request.ttl_s is None:
            return None
        return cls(
            request.priority,
            None if request.deadline is None else request.deadline * 1000,
            None if request.ttl_s is None else request.ttl_s * 1000,
        )

    def left_ms(self, now_ms: float) -> float | None:
        """How long from now on until the deadline, for a request that arrives now; None when it has none."""
        return self.ttl_ms if self.deadline_ms is None else self.deadline_ms - now_ms
