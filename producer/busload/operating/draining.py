"""Waiting until a queue is empty: nothing waits, nothing runs."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from busload_shared.queue import Queue
from busload_shared.replies import QueueInfo

LOOK_S = 0.25
_WINDOW_S = 30.0
_ANSWERED = ("succeeded", "failed", "cancelled", "expired", "dropped")


@dataclass(frozen=True, slots=True)
class Drained:
    """How far it is. `eta_s` is None while nothing tells. `is_served` says whether any worker is ready."""

    left: int
    done: int
    elapsed_s: float
    eta_s: float | None
    is_served: bool

    @property
    def is_empty(self) -> bool:
        return self.left == 0


@dataclass(slots=True)
class Pace:
    """Answers since the first look, and the rate of the last half minute."""

    began: float
    first: int
    seen: deque[tuple[float, int]] = field(default_factory=deque)

    def look(self, info: QueueInfo, now: float) -> Drained:
        """Take in what the queue says at `now`, on the monotonic clock, s."""
        done = answered(info) - self.first
        self.seen.append((now, done))
        while now - self.seen[0][0] > _WINDOW_S:
            self.seen.popleft()
        since, before = self.seen[0]
        rate = (done - before) / (now - since) if now > since else 0.0
        left = unfinished(info)
        eta_s = left / rate if rate > 0 else None
        ready = any(worker.state == "ready" for worker in info.workers)
        return Drained(left, max(0, done), now - self.began, eta_s, ready)


def unfinished(info: QueueInfo) -> int:
    """Requests that wait, are to run again, or run."""
    return info.waiting + info.retry + info.inflight


def answered(info: QueueInfo) -> int:
    """Answers since the queue's first day; 0 for a user who may not read the counters."""
    return sum(info.counters.get(name, 0) for name in _ANSWERED)


async def until_empty(queue: Queue, tell: Callable[[Drained], None], *, timeout_s: float | None) -> Drained:
    """Look until nothing is left or the time is over; returns the last look."""
    began = time.monotonic()
    info = await queue.info()
    pace = Pace(began, answered(info))
    while True:
        now = time.monotonic()
        drained = pace.look(info, now)
        tell(drained)
        if drained.is_empty or (timeout_s is not None and now - began >= timeout_s):
            return drained
        pause_s = LOOK_S if timeout_s is None else min(LOOK_S, max(0.0, began + timeout_s - now))
        await asyncio.sleep(pause_s)
        info = await queue.info()
