"""Submitting many requests at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from busload_shared.errors import BusloadError, QueueFull, RequestInvalid
from busload_shared.replies import SubmitState
from busload_shared.request import Request

from .encoding import as_request, outgoing
from .turnstile import AT_MOST
from .wiring import Wiring

_ON_THEIR_WAY = 4 * AT_MOST

Sent = list[tuple[str, asyncio.Future[SubmitState]]]


class Submission(NamedTuple):
    """What became of a request. `state` is `queued` when it is new, `waiting`, `running` or `answered` when its
    id was known and nothing was added, and `full` when it was refused (only from `submit_many`).

    After a lost connection a new one may be told as `waiting`: the first try had come through.
    """

    id: str
    state: SubmitState


async def send_many(
    wiring: Wiring, requests: Iterable[Request | Mapping[str, Any]], *, raise_when_full: bool
) -> list[Submission]:
    """See `AsyncClient.submit_many`."""
    sent: Sent = []
    failed: Exception | None = None
    try:
        await _send(wiring, requests, sent, raise_when_full)
    except Exception as error:  # the iterable's own too: those on their way are waited for first
        failed = error
    told: list[Submission] = []
    outcomes = await asyncio.gather(*(future for _, future in sent), return_exceptions=True)
    for (request_id, _), outcome in zip(sent, outcomes, strict=True):
        if isinstance(outcome, str):
            told.append(Submission(request_id, outcome))
        elif isinstance(outcome, QueueFull) and not raise_when_full:
            told.append(Submission(request_id, "full"))
        elif isinstance(outcome, Exception) and failed is None:
            failed = outcome
    if failed is not None:
        raise _with_count(failed, sum(state != "full" for _, state in told))
    return told


async def _send(
    wiring: Wiring, requests: Iterable[Request | Mapping[str, Any]], sent: Sent, raise_when_full: bool
) -> None:
    for position, given in enumerate(requests):
        if position >= _ON_THEIR_WAY and position % AT_MOST == 0:
            oldest = [future for _, future in sent[position - _ON_THEIR_WAY :][:AT_MOST]]
            await asyncio.wait(oldest)
            failures = [future.exception() for future in oldest]
            if any(error and (raise_when_full or not isinstance(error, QueueFull)) for error in failures):
                return
        try:
            sent.append(_send_one(wiring, as_request(given, {})))
        except RequestInvalid as error:
            raise RequestInvalid(f"request {position}: {error}") from None


def _send_one(wiring: Wiring, asked: Request) -> tuple[str, asyncio.Future[SubmitState]]:
    if wiring.tracing is not None and asked.trace is None:
        return wiring.tracing.along("busload submit", asked, partial(_send_one, wiring))
    one = outgoing(asked)
    return one.id, wiring.send(one)


def _with_count(error: Exception, taken: int) -> Exception:
    if isinstance(error, BusloadError):
        error.args = (f"{taken} requests were taken before this: {error}",)
    return error
