"""What the gateway counts of its calls: plain numbers. No I/O, and no library."""

from __future__ import annotations

import time
from collections import Counter

from busload_shared.metrics.histogram import SECONDS, Histogram

ENDPOINTS = ("chat_completions", "completions", "models", "files", "batches", "health", "ops", "other")
_PATHS = {
    "/v1/chat/completions": "chat_completions",
    "/v1/completions": "completions",
    "/v1/models": "models",
    "/v1/files": "files",
    "/v1/batches": "batches",
    "/health/live": "health",
    "/health/ready": "health",
}
ANSWERS = ("2xx", "3xx", "4xx", "5xx", "none")
REASONS = (
    "invalid_api_key", "rate_limit_exceeded", "queue_full", "deadline_unmeetable", "deadline_passed", "body_too_large",
    "invalid_value", "unknown_parameter", "unsupported_parameter", "not_found", "timeout", "unavailable", "stopping",
    "internal_error", "other",
)  # fmt: skip
"""The codes of refusals that have a series of their own; all others are `other`."""


class GatewayMeter:
    """Written by the gateway's event loop: `begins` and `ended` around each call."""

    def __init__(self, *, queue: str) -> None:
        """`queue` is that of callers without a key of their own; it is the label of all series."""
        self.queue = queue
        self.running: int = 0
        self.calls: Counter[str] = Counter()
        self.answers: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self.call_s: Histogram = Histogram(SECONDS)
        self.completion_tokens: int = 0

    def begins(self) -> float:
        """A call came. Returns when, for `ended`."""
        self.running += 1
        return time.monotonic()

    def ended(self, began: float, *, path: str, status: int, code: str | None, tokens: int | None) -> None:
        """The call is over. `status` is 0 when the caller left before an answer, `code` is that of a refusal."""
        self.running -= 1
        self.call_s.add(time.monotonic() - began)
        self.calls[_endpoint(path)] += 1
        answer = f"{status // 100}xx"
        self.answers[answer if answer in ANSWERS else "none"] += 1
        if code is not None:
            self.refusals[code if code in REASONS else "other"] += 1
        self.completion_tokens += tokens or 0


def _endpoint(path: str) -> str:
    """One of ENDPOINTS: what follows in a path, such as an id, is left out."""
    if path == "/ops" or path.startswith("/ops/"):
        return "ops"
    return _PATHS.get("/".join(path.split("/", 4)[:3])) or _PATHS.get(path) or "other"
