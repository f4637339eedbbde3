"""The simulator: workers and their queue, from event to event. Decisions are those of the real worker's pure parts."""

from __future__ import annotations

import heapq
import math
from collections import deque
from random import Random
from typing import NamedTuple

from ..batch_times import BatchTimes
from ..picking import Waiter, pick
from ..waiting_rule import Hazards, Kind, wait_on
from .outcome import Outcome, Tally
from .riding import row_ends_ms
from .scenario import Scenario

WINDOW = 8
"""Batches' worth of the oldest that are looked at to pick from."""

MEAN_MEMORY = 0.9
"""Weight of the old mean batch time at each batch."""

SOON_MS = 1e-6
"""Less than this is now: sums of times are not exact."""


class Job(NamedTuple):
    """One request: its place in the order of arrival, its route, its true length, and what a worker sees of it."""

    number: int
    route: str
    length: int
    waiter: Waiter


class _Worker:
    """What one worker has learned, and what it runs."""

    def __init__(self) -> None:
        self.hazards = Hazards()
        self.began_ms = 0.0
        self.completed_ms: float | None = None
        self.seen = -1
        self.jobs: list[Job] = []


class Fleet:
    """One run. Make a new one for each."""

    def __init__(self, scenario: Scenario) -> None:
        s = self._s = scenario
        seeds = Random(s.seed)
        self._rng_lengths, noise, arrivals = (Random(seeds.getrandbits(64)) for _ in range(3))
        self._source = s.arrivals.source(s.requests, arrivals)
        self._predictor = s.predictions.predictor(noise)
        self._uncounted = int(s.warm_up * s.requests)
        self._queue: list[Job] = []
        self._weight = 0
        self._idle = deque(_Worker() for _ in range(s.workers))
        self._events: list[tuple[float, int, _Worker | None]] = []
        self._serial = 0
        self._look_ms = math.inf
        self._newest_ms = -math.inf
        self._came = 0
        self._times = BatchTimes()
        self._mean_batch_ms: float | None = None
        self._tally = Tally()

    def run(self) -> Outcome:
        """Serve all requests."""
        while True:
            arrival = self._source.next_ms()
            event = self._events[0][0] if self._events else math.inf
            if arrival <= event and arrival < math.inf:
                now = self._source.pop()
                self._arrive(now)
            elif event < math.inf:
                now, _, worker = heapq.heappop(self._events)
                if worker is not None:
                    self._complete(now, worker)
                elif now != self._look_ms:
                    continue  # decided anew since
            elif self._queue:
                self._depart(now, self._idle.popleft())  # nobody will come: the drain
                continue
            else:
                return self._tally.outcome(size=self._s.size, workers=self._s.workers)
            self._board(now)

    def _arrive(self, now: float) -> None:
        s = self._s
        route, length = s.lengths.draw(self._rng_lengths)
        length = min(length, s.max_tokens)
        guess, spread = self._predictor.predict(route, length, s.max_tokens)
        waiter = Waiter(now, s.prompt_tokens, guess, s.prompt_tokens + s.max_tokens, spread)
        job = Job(self._came, route, length, waiter)
        self._came += 1
        self._queue.append(job)
        self._weight += job.waiter.weight
        self._newest_ms = now

    def _board(self, now: float) -> None:
        """As often as a batch leaves now: an idle worker claims it. The one that is idle for longest asks."""
        while self._idle and self._queue:
            look_ms = 0.0 if self._full() else self._look_in_ms(now, self._idle[0])
            if look_ms > SOON_MS:
                if now + look_ms != self._look_ms:
                    self._look_ms = now + look_ms
                    if self._look_ms < math.inf:
                        self._push(self._look_ms, None)
                return
            self._look_ms = math.inf
            self._depart(now, self._idle.popleft())

    def _full(self) -> bool:
        most = self._s.max_batch_tokens
        return len(self._queue) >= self._s.size or (most is not None and self._weight > most)

    def _look_in_ms(self, now: float, worker: _Worker) -> float:
        """How long the batch waits on before the next look; 0 when it leaves now."""
        s, oldest = self._s, self._queue[0].waiter.arrival_ms
        if s.wait_ms != "auto":
            return max(0.0, oldest + s.wait_ms - now)
        completed = -math.inf if worker.completed_ms is None else worker.completed_ms
        kind: Kind = "completion" if completed > self._newest_ms else "arrival"
        decision = wait_on(
            len(self._queue),
            now - max(completed, self._newest_ms),
            kind=kind,
            size=s.size,
            tau=self._times,
            hazards=worker.hazards,
            waited_ms=now - max(completed, oldest),
            cap_ms=None if s.cap_ms is None else oldest + s.cap_ms - now,
            since_arrival_ms=now - self._newest_ms,
        )
        return decision.look_in_ms if decision.wait else 0.0

    def _depart(self, now: float, worker: _Worker) -> None:
        s, window = self._s, self._queue[: WINDOW * self._s.size]
        picked = self._pick(window, now)
        if s.wait_ms == "auto":
            seen = window if s.order == "length" else [window[i] for i in picked]
            new = [job.waiter.arrival_ms for job in seen if job.number > worker.seen]
            worker.seen = max(worker.seen, seen[-1].number)
            worker.hazards.observe(new, worker.completed_ms, gapless=s.workers == 1)
        jobs = worker.jobs = [window[i] for i in picked]
        worker.began_ms = now
        gone = set(picked)
        self._queue[: len(window)] = [job for i, job in enumerate(window) if i not in gone]
        self._weight -= sum(job.waiter.weight for job in jobs)
        lengths = [job.length for job in jobs]
        ends = row_ends_ms(s.curve, prompt_tokens=sum(job.waiter.prompt_tokens for job in jobs), lengths=lengths)
        took = max(ends)
        self._count(now, jobs, ends, took)
        self._push(now + took, worker)

    def _pick(self, window: list[Job], now: float) -> list[int]:
        s = self._s
        rows = window[: s.size] if s.order == "fifo" else window
        return pick(
            [job.waiter for job in rows],
            now_ms=now,
            size=s.size,
            max_tokens=s.max_batch_tokens,
            curve=s.curve,
            mean_batch_ms=self._mean_batch_ms,
        )

    def _count(self, now: float, jobs: list[Job], ends: list[float], took: float) -> None:
        by_row = self._s.release == "row"
        if jobs[0].number >= self._uncounted:
            self._tally.batch(now, took, [job.length for job in jobs])
        for job, end in zip(jobs, ends, strict=True):
            answered = end if by_row else took
            self._source.claimed(now)
            self._source.answered(now + answered)
            if job.number >= self._uncounted:
                waited = now - job.waiter.arrival_ms
                self._tally.row(waited + answered, waited, took - end)

    def _complete(self, now: float, worker: _Worker) -> None:
        jobs, worker.jobs = worker.jobs, []
        for job in jobs:
            self._predictor.learn(job.route, job.length)
        ran = now - worker.began_ms
        self._mean_batch_ms = ran if self._mean_batch_ms is None else _blend(self._mean_batch_ms, ran)
        if self._s.wait_ms == "auto":
            self._times.learn(self._s.curve, [(job.waiter.prompt_tokens, job.length) for job in jobs])
        worker.completed_ms = now
        self._idle.append(worker)

    def _push(self, at_ms: float, worker: _Worker | None) -> None:
        self._serial += 1
        heapq.heappush(self._events, (at_ms, self._serial, worker))


def _blend(old: float, new: float) -> float:
    return MEAN_MEMORY * old + (1 - MEAN_MEMORY) * new


def simulate(scenario: Scenario) -> Outcome:
    """Run a scenario to its end. The same scenario gives the same outcome, to the last digit."""
    return Fleet(scenario).run()
