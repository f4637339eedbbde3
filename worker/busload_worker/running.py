"""One batch's run: the engine's events in, answers out, and a line in the log at the end."""

from __future__ import annotations

import logging
from contextlib import aclosing

from busload_shared.replies import Seat
from busload_shared.request import Request
from busload_shared.result import Proof, ResultError

from .admission import Admission
from .answers import Ride, delivery, succeeded, unrun
from .engines.protocol import BatchDone, BatchStarted, Engine, EngineEvent, RowDone, RowRefused
from .logs import fields
from .outbox import Outbox

logger = logging.getLogger("busload.batch")


class BatchRun:
    """Runs the admitted rows of one claim.

    With `release_rows` a row's answer leaves the moment the row ends; else all leave together at the end, and
    each result tells how long it was held.
    """

    def __init__(self, ride: Ride, admission: Admission, outbox: Outbox, *, release_rows: bool) -> None:
        self.ride = ride
        self._waiting: dict[int, tuple[Seat, Request]] = dict(admission.seats)
        self._rows = admission.rows
        self._outbox = outbox
        self._release_rows = release_rows
        self._ended: list[tuple[Seat, Request, RowDone]] = []
        self.done: BatchDone | None = None

    def now_ms(self) -> float:
        """Unix ms on the Redis clock."""
        return self.ride.claim.clock_ms()

    async def run(self, engine: Engine) -> None:
        """Run to the end. Raises EngineDied or BatchFailed; rows that ended before are answered all the same."""
        try:
            async with aclosing(engine.run(self.ride.claim.batch, self._rows)) as events:  # type: ignore[type-var]
                async for event in events:
                    self._heard(event)
        finally:
            self._release_held()

    def waiting_ids(self) -> dict[str, int]:
        """The rows that still run: id -> index."""
        return {request.id: index for index, (_, request) in self._waiting.items()}

    def cancel(self, index: int) -> None:
        """Answer a running row as cancelled. The caller tells the engine to stop it."""
        self._refuse(index, RowRefused(index=index, code="cancelled", message="cancelled while it ran"))

    def _heard(self, event: EngineEvent) -> None:
        if isinstance(event, RowDone):
            if (found := self._waiting.pop(event.index, None)) is not None:
                self._end(*found, event)
        elif isinstance(event, RowRefused):
            self._refuse(event.index, event)
        elif isinstance(event, BatchStarted):
            self.ride.size = event.rows
            self.ride.begin(event, self.now_ms())
        else:
            self.done = event

    def _end(self, seat: Seat, request: Request, row: RowDone) -> None:
        if self._release_rows:
            self._outbox.post([delivery(seat, succeeded(self.ride, seat, request, row))])
        else:
            self._ended.append((seat, request, row))

    def _release_held(self) -> None:
        ran_ms = self.done.ran_ms if self.done else self.now_ms() - self.ride.started_ms
        self._outbox.post(
            [
                delivery(seat, succeeded(self.ride, seat, request, row, held_ms=max(0.0, ran_ms - row.ran_ms)))
                for seat, request, row in self._ended
            ]
        )
        self._ended.clear()

    def _refuse(self, index: int, row: RowRefused) -> None:
        if (found := self._waiting.pop(index, None)) is not None:
            error = ResultError(code=row.code, message=row.message)
            result = unrun(self.ride, *found, error, now_ms=self.now_ms())
            self._outbox.post([delivery(found[0], result)])

    @property
    def proof(self) -> Proof | None:
        """The engine's proof that the batch ran as one unit; None where it gives none."""
        return self.done.proof if self.done else None

    def log(self, *, died: str | None = None) -> None:
        """The batch's one line. Never the text of a prompt or an output."""
        claim, done, proof = self.ride.claim, self.done, self.proof
        arrivals = [seat.element.arrival_ms for seat in claim.seats if seat.element.arrival_ms > 0]
        line = fields(
            batch=claim.batch,
            size=self.ride.size,
            trigger=claim.trigger,
            oldest_wait_ms=round(claim.claimed_ms - min(arrivals), 1) if arrivals else 0.0,
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
