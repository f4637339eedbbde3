"""A decision in one line for people, and as one record for programs."""

from __future__ import annotations

from dataclasses import dataclass

from .policy import Decision, Why
from .rules import Rules
from .sight import Sight

_BECAUSE: dict[Why, str] = {
    "first": "there is work and no worker",
    "more": "{need} are needed to keep {target:g} s",
    "late": "requests are late though all workers are ready",
    "fewer": "fewer have been enough for {quiet:g} s",
    "idle": "nothing has come for {idle:g} s",
    "quiet": "{need} would do now; fewer only after {quiet:g} s of it",
    "enough": "enough to keep {target:g} s",
}


@dataclass(frozen=True, slots=True)
class Told:
    """What was seen and decided. `was` and `workers` are the number wanted before and now; times in s."""

    queue: str
    at: float
    was: int
    workers: int
    need: int
    why: Why
    reason: str
    waiting: int
    inflight: int
    oldest_s: float
    arrivals_per_s: float
    ready: int
    coming: int
    worker_rows_per_s: float | None

    @property
    def line(self) -> str:
        """For people."""
        move = "" if self.workers == self.was else f"{self.was} -> "
        rate = "?" if self.worker_rows_per_s is None else f"{self.worker_rows_per_s:.3g}"
        seen = (
            f"{self.waiting} wait, the oldest {self.oldest_s:.1f} s; {self.inflight} in flight; "
            f"{self.arrivals_per_s:.3g}/s come, a worker does {rate}/s; {self.ready} ready, {self.coming} starting"
        )
        return f"{move}{self.workers} worker{'' if self.workers == 1 else 's'}: {self.reason} ({seen})"


def told(queue: str, sight: Sight, rules: Rules, decision: Decision, *, was: int) -> Told:
    """All of it."""
    batch = decision.memory.batch
    return Told(
        queue=queue,
        at=round(sight.at_s, 3),
        was=was,
        workers=decision.workers,
        need=decision.need,
        why=decision.why,
        reason=_reason(rules, decision),
        waiting=sight.waiting,
        inflight=sight.inflight,
        oldest_s=round(sight.oldest_s, 3),
        arrivals_per_s=round(sight.arrivals_per_s, 4),
        ready=sight.ready,
        coming=sight.coming,
        worker_rows_per_s=None if batch is None else round(batch.rows_per_s(rules.target_s), 4),
    )


def _reason(rules: Rules, decision: Decision) -> str:
    words = {"need": decision.need, "target": rules.target_s, "quiet": rules.quiet_s, "idle": rules.idle_s}
    text = _BECAUSE[decision.why].format(**words)
    batch = decision.memory.batch
    if batch is not None and batch.seconds(1) > rules.target_s:
        text += f"; even a batch of one takes {batch.seconds(1):.3g} s, so no number of workers keeps the target"
    elif decision.need == rules.max_workers and decision.why in ("more", "enough"):
        text += f"; {rules.max_workers} is the most allowed"
    return text
