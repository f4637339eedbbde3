"""The answer to a row that ran to its end, as the JSON of its Result.

Every request pays for this, so it is put together from pieces instead of models: half of the time. A test reads it back
and compares it with the models, field by field.
"""

from __future__ import annotations

from pydantic import TypeAdapter
from pydantic_core import to_json

from busload_shared.replies import Delivery, Seat
from busload_shared.request import Request
from busload_shared.result import Output, Proof

from .answers import Ride, arrival_of
from .engines.protocol import RowDone

_outputs_json = TypeAdapter(tuple[Output, ...]).serializer.to_json


def succeeded(ride: Ride, seat: Seat, request: Request, row: RowDone, *, held_ms: float = 0.0) -> Delivery:
    """Times are written to the microsecond."""
    body = (
        f'{{"v":1,"id":{_text(request.id)},"status":"succeeded",'
        f'"outputs":{_outputs_json(row.outputs, exclude_none=True).decode()},'
        f'"usage":{{"prompt_tokens":{row.usage.prompt_tokens},"completion_tokens":{row.usage.completion_tokens},'
        f'"total_tokens":{row.usage.total_tokens}}},'
        f'"batch":{_batch(ride, seat)},"timing":{_timing(ride, seat, row, held_ms)},'
        f'"worker":{_text(ride.worker)},"attempts":{seat.element.attempts + 1}'
    )
    if request.metadata is not None:
        body += f',"metadata":{to_json(request.metadata).decode()}'
    return Delivery(seat.position, request.id, "succeeded", seat.element.reply, (body + "}").encode())


def _batch(ride: Ride, seat: Seat) -> str:
    claim = ride.claim
    return (
        f'{{"id":{_text(claim.batch)},"size":{ride.size},"position":{seat.position},"trigger":"{claim.trigger}",'
        f'"tokens":{ride.tokens}}}'
    )


def _timing(ride: Ride, seat: Seat, row: RowDone, held_ms: float) -> str:
    arrival, started = arrival_of(ride, seat), ride.started_ms
    proof = "" if row.proof is None else f',"proof":{_proof(row.proof)}'
    return (
        f'{{"enqueued_ms":{arrival:.3f},"claimed_ms":{ride.claim.claimed_ms:.3f},"started_ms":{started:.3f},'
        f'"finished_ms":{started + row.ran_ms:.3f},"waited_ms":{started - arrival:.3f},"run_ms":{row.ran_ms:.3f},'
        f'"held_ms":{held_ms:.3f}{proof}}}'
    )


def _proof(proof: Proof) -> str:
    # what would break the proof is none of rounding's to hide
    gap = "" if proof.gap_ms is None else f',"gap_ms":{proof.gap_ms if proof.gap_ms < 0 else round(proof.gap_ms, 3)!r}'
    return f'{{"spread_ms":{proof.spread_ms!r},"preemptions":{proof.preemptions}{gap}}}'


def _text(text: str) -> str:
    return f'"{text}"' if text.isalnum() and text.isascii() else to_json(text).decode()
