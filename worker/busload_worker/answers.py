"""From what happened to a row to the Result its reader sees. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from busload_shared.replies import Claim, DeadLetter, Delivery, Seat
from busload_shared.request import Request, made
from busload_shared.result import BatchInfo, ErrorCode, Result, ResultError, Status, Timing

from .engines.protocol import BatchStarted, RowDone

POISON_LONE_DEATHS = 2
"""A request is convicted when it died alone this often: once may be the machine's fault."""

_to_json = Result.__pydantic_serializer__.to_json


@dataclass(slots=True)
class Ride:
    """What all rows of one running batch share. Times are Unix ms on the Redis clock."""

    claim: Claim
    worker: str
    size: int
    started_ms: float = 0.0
    tokens: int = 0

    def begin(self, event: BatchStarted) -> None:
        """The engine has taken all good rows in."""
        self.started_ms, self.tokens = self.claim.clock_ms(event.at), event.tokens

    def info(self, position: int) -> BatchInfo:
        """The batch, as the row at `position` reports it."""
        claim = self.claim
        fields = {
            "id": claim.batch,
            "size": self.size,
            "position": position,
            "trigger": claim.trigger,
            "tokens": self.tokens,
        }
        return made(BatchInfo, fields)


def succeeded(ride: Ride, seat: Seat, request: Request, row: RowDone, *, held_ms: float = 0.0) -> Result:
    """The answer to a row that ran to its end."""
    arrival = _arrival(ride, seat)
    timing = {
        "enqueued_ms": arrival,
        "claimed_ms": ride.claim.claimed_ms,
        "started_ms": ride.started_ms,
        "finished_ms": ride.started_ms + row.ran_ms,
        "waited_ms": ride.started_ms - arrival,
        "run_ms": row.ran_ms,
        "held_ms": held_ms,
        "proof": row.proof,
    }
    result = {
        "v": 1,
        "id": request.id,
        "status": "succeeded",
        "outputs": row.outputs,
        "usage": row.usage,
        "error": None,
        "batch": ride.info(seat.position),
        "timing": made(Timing, timing),
        "worker": ride.worker,
        "attempts": seat.element.attempts + 1,
        "metadata": request.metadata,
        "trace": request.trace,
    }
    return made(Result, result)


def unrun(ride: Ride, seat: Seat, request: Request | None, error: ResultError, *, now_ms: float) -> Result:
    """The answer to a row that was not run, or not to its end."""
    statuses: dict[ErrorCode, Status] = {"cancelled": "cancelled", "expired": "expired"}
    arrival = _arrival(ride, seat)
    return Result(
        id=request.id if request else seat.element.id,
        status=statuses.get(error.code, "failed"),
        error=error,
        batch=ride.info(seat.position),
        timing=Timing(
            enqueued_ms=arrival,
            claimed_ms=ride.claim.claimed_ms,
            finished_ms=now_ms,
            waited_ms=now_ms - arrival,
        ),
        worker=ride.worker,
        attempts=seat.element.attempts + (ride.started_ms > 0),
        metadata=request.metadata if request else None,
        trace=request.trace if request else None,
    )


def expired_waiting(request_id: str, worker: str) -> bytes:
    """The Result of a request whose deadline passed while it waited, as JSON."""
    error = ResultError(code="expired", message="its deadline passed while it waited: no worker was free in time")
    return _to_json(Result(id=request_id, status="expired", error=error, worker=worker, attempts=0), exclude_none=True)


def delivery(seat: Seat, result: Result, letter: bytes = b"") -> Delivery:
    """A result on its way to Redis. A row whose id could not be read leaves only its dead letter."""
    body = _to_json(result, exclude_none=True)
    return Delivery(seat.position, result.id, result.status, seat.element.reply, body, letter)


def dead_letter(ride: Ride, seat: Seat, result: Result, now_ms: float) -> bytes:
    """The evidence that stays when a request will not be run again."""
    assert result.error is not None
    payload, is_base64 = DeadLetter.text_of(seat.element.payload)
    return (
        DeadLetter(
            id=result.id or None,
            code=result.error.code,
            message=result.error.message,
            at_ms=now_ms,
            enqueued_ms=_arrival(ride, seat),
            attempts=seat.element.attempts,
            batch=ride.claim.batch,
            worker=ride.worker,
            payload=payload,
            payload_is_base64=is_base64,
        )
        .model_dump_json()
        .encode()
    )


def _arrival(ride: Ride, seat: Seat) -> float:
    """A header that a producer forged cannot be younger than its claim, nor older than anything: 0 means unknown."""
    arrival = seat.element.arrival_ms
    return min(arrival, ride.claim.claimed_ms) if arrival > 0 else ride.claim.claimed_ms
