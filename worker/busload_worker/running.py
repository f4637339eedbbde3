"""One batch's run: the engine's events in, answers out, and a line in the log at the end."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from math import inf

from busload_shared.errors import OutOfMemory
from busload_shared.past_batch import PastBatch
from busload_shared.replies import Delivery, Seat
from busload_shared.request import Request
from busload_shared.result import Proof, Result, ResultError

from .admission import Admission
from .answers import Ride, delivery, succeeded, unrun
from .engines.protocol import BatchDone, BatchStarted, Engine, EngineEvent, EngineRow, RowDone, RowRefused
from .logs import fields
from .metrics_meter import Meter
from .outbox import Outbox
from .tracing import BatchTrace
from .weight import BatchLimit

logger = logging.getLogger("busload.batch")

TOO_HEAVY = (
    "the engine ran out of memory while it ran alone: shorten it, or lower its max_tokens or n; if light requests get "
    "this too, operations must free memory on the worker's machine or lower BUSLOAD_VLLM_GPU_MEMORY_UTILIZATION"
)


class BatchRun:
    """Runs the admitted rows of one claim.

    With `release_rows` a row's answer leaves the moment the row ends; else all leave together at the end, and
    each result tells how long it was held. `longest` is the most new tokens of any sample, `pace_ms` the least time
    that a row took for a token. `ran_ms` is the time in the engine of the units that ended, `held_ms` the longest that
    an answer was kept back for others. `out_of_memory` counts the runs that ended so, `too_heavy` the rows that did so
    alone, and `most_at_once` is how many rows ran well together. `learn` is told of each row that ends by itself.
    """

    def __init__(
        self,
        ride: Ride,
        admission: Admission,
        outbox: Outbox,
        *,
        release_rows: bool,
        learn: Callable[[Request, RowDone], None] | None = None,
    ) -> None:
        self.ride = self._unit = ride
        self._waiting: dict[int, tuple[Seat, Request]] = dict(admission.seats)
        self._rows = admission.rows
        self._outbox = outbox
        self._release_rows = release_rows
        self._learn = learn
        self._ended: list[tuple[Seat, Request, RowDone]] = []
        self._expires = {
            index: expires
            for index, (seat, request) in self._waiting.items()
            if (expires := request.expires_at_ms(seat.element.arrival_ms)) is not None
        }
        self.trace: BatchTrace | None = None
        self.meter: Meter | None = None
        self._abandoned = False
        self.out_of_memory = 0
        self.too_heavy = 0
        self.most_at_once = 0
        self.proofs_broken = 0
        self.longest = 0
        self.pace_ms = inf
        self.ran_ms = self.held_ms = 0.0
        self.done: BatchDone | None = None

    def now_ms(self) -> float:
        """Unix ms on the Redis clock."""
        return self.ride.claim.clock_ms()

    async def run(self, engine: Engine) -> None:
        """Run to the end. Raises EngineDied or BatchFailed; rows that ended before are answered all the same.

        Rows that are too much for the engine's memory together run again in halves, one after the other: each half is
        a unit of its own, and its results tell its size. A row that is too much alone is answered.
        """
        parts = [self._rows]
        while parts and not self._abandoned:
            part = [row for row in parts.pop(0) if row.index in self._waiting]
            if not part:
                continue
            try:
                await self._run_unit(engine, part)
            except OutOfMemory as error:
                parts[:0] = self._halves(part, error)
            else:
                self.most_at_once = max(self.most_at_once, len(part))
                if parts:
                    self.log()

    async def _run_unit(self, engine: Engine, rows: list[EngineRow]) -> None:
        self.done = None
        self.ride.size, self.ride.started_ms, self.ride.tokens = len(rows), 0.0, 0
        try:
            async with aclosing(engine.run(self.ride.claim.batch, rows)) as events:  # type: ignore[type-var]
                async for event in events:
                    self._heard(event)
        finally:
            self._release_held()

    def _halves(self, part: list[EngineRow], error: OutOfMemory) -> list[list[EngineRow]]:
        """What is left of rows that ran out of memory together, to run next."""
        self.out_of_memory += 1
        left = [row for row in part if row.index in self._waiting]
        logger.warning(
            "the engine ran out of memory: what is left of the batch runs again in halves",
            extra=fields(batch=self.ride.claim.batch, size=len(part), left=len(left), error=str(error)[:300]),
        )
        if len(part) == 1:
            for row in left:
                self.too_heavy += 1
                self._refuse(row.index, RowRefused(index=row.index, code="too_heavy", message=TOO_HEAVY))
            return []
        for row in left:
            seat, request = self._waiting[row.index]
            element = seat.element._replace(attempts=seat.element.attempts + 1)
            self._waiting[row.index] = (seat._replace(element=element), request)
        half = (len(left) + 1) // 2
        return [left[:half], left[half:]]

    def weigh(self, limit: BatchLimit) -> None:
        """Let the limit learn from this run, once it is over."""
        ran_out = self.out_of_memory > 0
        if limit.learn(ran_out=ran_out, too_heavy=self.too_heavy > 0, together=self.most_at_once):
            why = "batches are smaller for a while: memory ran out" if ran_out else "batches may be larger again"
            logger.warning(why, extra=fields(max_batch_size=limit.now))

    def abandon(self) -> None:
        """Another worker has the rows: begin none of them any more. The caller tells the engine to stop."""
        self._abandoned = True

    def waiting_ids(self) -> dict[str, int]:
        """The rows that still run: id -> index."""
        return {request.id: index for index, (_, request) in self._waiting.items()}

    def cancel(self, index: int) -> None:
        """Answer a running row as cancelled. The caller tells the engine to stop it."""
        self._refuse(index, RowRefused(index=index, code="cancelled", message="cancelled while it ran"))

    def overdue(self) -> frozenset[int]:
        """The rows that still run though their deadline has passed: nobody wants them any more."""
        now_ms = self.now_ms() if self._expires else 0.0
        return frozenset(index for index, at in self._expires.items() if at <= now_ms and index in self._waiting)

    def expire(self, index: int) -> None:
        """Answer a running row as expired. The caller tells the engine to stop it."""
        self._refuse(index, RowRefused(index=index, code="expired", message="its deadline passed while it ran"))

    def _heard(self, event: EngineEvent) -> None:
        if isinstance(event, RowDone):
            if (found := self._waiting.pop(event.index, None)) is not None:
                self._end(*found, event)
        elif isinstance(event, RowRefused):
            self._refuse(event.index, event)
        elif isinstance(event, BatchStarted):
            self.ride.size = event.rows
            self.ride.begin(event)
            self._unit = replace(self.ride)
        else:
            self.done = event
            self.ran_ms += event.ran_ms
            if self.meter is not None:
                self.meter.ran(event, weight=self.ride.tokens)
            self.proofs_broken += event.proof is not None and not event.proof.holds

    def _end(self, seat: Seat, request: Request, row: RowDone) -> None:
        tokens = row.usage.completion_tokens // request.n
        if tokens:
            self.longest = max(self.longest, tokens)
            self.pace_ms = min(self.pace_ms, row.ran_ms / tokens)
            if self._learn:
                self._learn(request, row)
        if self._release_rows:
            self._outbox.post([partial(self._packed, self._unit, seat, request, row)])
        else:
            self._ended.append((seat, request, row))

    def _release_held(self) -> None:
        ran_ms = self.done.ran_ms if self.done else self.now_ms() - self.ride.started_ms
        held_ms = [max(0.0, ran_ms - row.ran_ms) for *_, row in self._ended]
        for (seat, request, row), held in zip(self._ended, held_ms, strict=True):
            self._outbox.post([partial(self._packed, self._unit, seat, request, row, held)])
        self.held_ms = max([self.held_ms, *held_ms])
        if self.meter is not None:
            self.meter.held_s.add_all([held / 1000 for held in held_ms])
        self._ended.clear()

    def _refuse(self, index: int, row: RowRefused) -> None:
        if (found := self._waiting.pop(index, None)) is not None:
            error = ResultError(code=row.code, message=row.message)
            result = unrun(self.ride, *found, error, now_ms=self.now_ms())
            self._outbox.post([partial(self._delivery, found[0], result)])

    def _packed(self, unit: Ride, seat: Seat, request: Request, row: RowDone, held_ms: float = 0.0) -> Delivery:
        return self._delivery(seat, succeeded(unit, seat, request, row, held_ms=held_ms))

    def _delivery(self, seat: Seat, result: Result) -> Delivery:
        if self.trace is not None:
            self.trace.answered(seat.position, result)
        return delivery(seat, result)

    @property
    def proof(self) -> Proof | None:
        """The engine's proof that the batch ran as one unit; None where it gives none."""
        return self.done.proof if self.done else None

    def _oldest_wait_ms(self) -> float:
        """How long the first had waited when the batch was claimed."""
        arrivals = [seat.element.arrival_ms for seat in self.ride.claim.seats if seat.element.arrival_ms > 0]
        return self.ride.claim.claimed_ms - min(arrivals) if arrivals else 0.0

    def past(self) -> PastBatch:
        """What the worker's record tells of this batch once it is over. In parts, their times in the engine add up."""
        claim, now_ms = self.ride.claim, self.now_ms()
        died_in_ms = now_ms - self.ride.started_ms if self.done is None and self.ride.started_ms else 0.0
        return PastBatch(
            batch=claim.batch,
            size=len(claim.seats),
            trigger=claim.trigger,
            claimed_ms=claim.claimed_ms,
            ended_ms=now_ms,
            waited_ms=max(0.0, self._oldest_wait_ms()),
            run_ms=self.ran_ms + died_in_ms,
            held_ms=self.held_ms,
            unanswered=len(self._waiting),
        )

    def log(self, *, died: str | None = None) -> None:
        """The batch's one line. Never the text of a prompt or an output."""
        claim, done, proof = self.ride.claim, self.done, self.proof
        line = fields(
            batch=claim.batch,
            size=self.ride.size,
            trigger=claim.trigger,
            oldest_wait_ms=round(self._oldest_wait_ms(), 1),
            left_waiting=claim.depth,
            tokens=self.ride.tokens,
            prompt_tokens=done.prompt_tokens if done else None,
            completion_tokens=done.completion_tokens if done else None,
            run_ms=round(done.ran_ms, 1) if done else None,
            as_one_unit=proof.holds if proof else None,
            unanswered=len(self._waiting),
        )
        if died is None:
            logger.info("batch done", extra=line)
        else:
            logger.error("batch died: %s", died, extra=line)
