"""Checks each row of a claim alone, before the engine sees any: one bad row costs its neighbours nothing. Pure."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from busload_shared.errors import RequestInvalid
from busload_shared.replies import Claim, Delivery, Seat
from busload_shared.request import MAX_ID_CHARACTERS, Request, parse_request
from busload_shared.result import ResultError

from .answers import POISON_LONE_DEATHS, Ride, dead_letter, delivery, unrun
from .engines.protocol import EngineRow

TURN_S = 0.02
"""A batch of ordinary requests is read in less."""


@dataclass(slots=True)
class Admission:
    """The rows that board, by their index in the claim, and the answers to those that do not."""

    rows: list[EngineRow] = field(default_factory=list)
    seats: dict[int, tuple[Seat, Request]] = field(default_factory=dict)
    answers: list[Delivery] = field(default_factory=list)


class _Named(BaseModel):
    """What else the JSON holds is not made into objects: a megabyte of brackets would take half a second."""

    model_config = ConfigDict(extra="ignore", strict=True)
    id: str


class Boarded(NamedTuple):
    """A claim whose rows have been looked at."""

    ride: Ride
    admission: Admission


async def board(claim: Claim, worker: str, *, pace_ms: float, now_ms: float | None = None) -> Boarded:
    """Look at each row of a claim, as `worker` will answer for it. `now_ms` is the claim's own clock if not given."""
    ride = Ride(claim, worker, size=len(claim.seats))
    admission = await admit_in_turns(ride, claim.clock_ms() if now_ms is None else now_ms, pace_ms=pace_ms)
    ride.size = len(admission.rows)
    return Boarded(ride, admission)


def admit(ride: Ride, now_ms: float, *, pace_ms: float = 0.0) -> Admission:
    """Sort a claim's seats into those that run and those that are answered unrun.

    `now_ms` is on the Redis clock; `pace_ms` the least time that any row took for a token lately, 0 while unknown:
    what cannot end by its deadline even so gives its seat to another.
    """
    admission = Admission()
    for seat in ride.claim.seats:
        _admit_one(admission, ride, seat, now_ms, pace_ms)
    return admission


async def admit_in_turns(ride: Ride, now_ms: float, *, pace_ms: float = 0.0) -> Admission:
    """The same, and others have their turn now and then: a hostile megabyte may take a quarter of a second to read, and
    a batch of them would keep the lease from being renewed."""
    admission, rested = Admission(), time.monotonic()
    for seat in ride.claim.seats:
        _admit_one(admission, ride, seat, now_ms, pace_ms)
        if time.monotonic() - rested > TURN_S:
            await asyncio.sleep(0)
            rested = time.monotonic()
    return admission


def _admit_one(admission: Admission, ride: Ride, seat: Seat, now_ms: float, pace_ms: float) -> None:
    looked = _look_at(seat, now_ms, pace_ms)
    if isinstance(looked, Request):
        admission.rows.append(EngineRow(index=seat.position, request=looked))
        admission.seats[seat.position] = (seat, looked)
    else:
        admission.answers.append(_turn_away(ride, seat, *looked, now_ms=now_ms))


def _look_at(seat: Seat, now_ms: float, pace_ms: float) -> Request | tuple[Request | None, ResultError]:
    """The request if it may run; else what could be read of it, and why it may not."""
    element = seat.element
    try:
        request = parse_request(element.payload)
    except RequestInvalid as error:
        return None, ResultError(code="invalid_request", message=str(error))
    if element.id and element.id != request.id:
        wrong = "the element's header names another id than its JSON"
        return request, ResultError(code="invalid_request", message=wrong)
    if seat.cancelled:
        return request, ResultError(code="cancelled", message="cancelled before it ran")
    expires = request.expires_at_ms(element.arrival_ms)
    if expires is not None and (late := _too_late(request, expires - now_ms, pace_ms)):
        return request, ResultError(code="expired", message=late)
    if element.lone_deaths >= POISON_LONE_DEATHS:
        deaths = f"the engine died {element.lone_deaths} times while it ran alone"
        return request, ResultError(code="poison", message=deaths)
    return request


def _too_late(request: Request, left_ms: float, pace_ms: float) -> str:
    if left_ms <= 0:
        return f"its deadline passed {-left_ms:.0f} ms before a batch took it"
    needed_ms = pace_ms * max(1, request.min_tokens)
    if needed_ms <= left_ms:
        return ""
    return f"its deadline is {left_ms:.0f} ms away and the engine needs {needed_ms:.0f} ms at least: it was not begun"


def _turn_away(ride: Ride, seat: Seat, request: Request | None, error: ResultError, *, now_ms: float) -> Delivery:
    result = unrun(ride, seat, request, error, now_ms=now_ms)
    if request is None and not result.id:
        result = result.model_copy(update={"id": readable_id(seat.element.payload)})
    evidence = dead_letter(ride, seat, result, now_ms) if error.code in ("invalid_request", "poison") else b""
    return delivery(seat, result, evidence)


def readable_id(payload: bytes) -> str:
    """The id of a request that breaks the contract otherwise, so that its error has an address; else empty."""
    try:
        name = _Named.model_validate_json(payload).id
    except ValidationError:
        return ""
    fits = 0 < len(name) <= MAX_ID_CHARACTERS and not any(c.isspace() or c < " " for c in name)
    return name if fits else ""
