"""The beat schedule of the housekeeping tasks."""

from __future__ import annotations

from typing import Any

EXPIRY_REPORT = "busload.expiry_report"
DEAD_LETTER_DIGEST = "busload.dead_letter_digest"
REDRIVE = "busload.redrive"
METRICS_ROLLUP = "busload.metrics_rollup"


def beat_schedule(
    *,
    expiry_report_s: float = 300,
    dead_letter_digest_s: float = 3600,
    metrics_rollup_s: float = 60,
    redrive_s: float = 600,
    redrive: dict[str, Any] | None = None,
    task_queue: str | None = None,
) -> dict[str, dict[str, Any]]:
    """Entries for Celery's `beat_schedule`. The queue is that of the application; 0 s leaves a task out.

    Nothing is redriven unless `redrive` gives the task's arguments: `{"reasons": ["engine_error"]}` at least.
    `task_queue` is the Celery queue that the tasks go to.
    """
    every: dict[str, tuple[float, dict[str, Any]]] = {
        EXPIRY_REPORT: (expiry_report_s, {}),
        DEAD_LETTER_DIGEST: (dead_letter_digest_s, {}),
        METRICS_ROLLUP: (metrics_rollup_s, {}),
    }
    if redrive is not None:
        every[REDRIVE] = (redrive_s, redrive)
    options: dict[str, Any] = {} if task_queue is None else {"queue": task_queue}
    return {
        name: {
            "task": name,
            "schedule": seconds,
            "kwargs": {**arguments, "interval_s": seconds},
            "options": {**options, "expires": seconds},  # beat went on while no worker was up: once is enough
        }
        for name, (seconds, arguments) in every.items()
        if seconds > 0
    }
