"""The fake engine's model: pure functions from a request to its text, its length and its time.

The text begins with a mark of the request, so that a test can tell whose answer it holds. A test may ask
for a fault through the request's metadata: `{"fake": "crash"}` and so on (see Fault), and for an output
shorter than `max_tokens` through `{"fake_tokens": 5}`, as a model that ends by itself would give. A row with
`{"fake_oom_over": 4}` makes every batch of more than 4 rows run out of memory as it begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Annotated, Literal, cast, get_args
from zlib import crc32

from pydantic import Field

from busload_shared.request import Message, Request, made
from busload_shared.result import Output, Proof, TokenLogprob, Usage

from .protocol import BatchStarted, EngineRow, RowDone, RowRefused

Fault = Literal["crash", "exit", "hang", "error", "drop", "refuse", "oom"]
"""crash: SIGKILL to itself; exit: the process ends by itself; hang: never ends and cannot be aborted;
error: the run raises; drop: this row is never told, so the count is wrong; refuse: only this row is
refused; oom: the run ends for lack of memory and the engine lives."""

_CYCLE = " road seat stop line ride fare door lane" * 128
_WORD = 5
"""Every word of the cycle has this many characters, its space included: a text of k words is one slice."""

Duration = Annotated[float, Field(ge=0)]


class FakeCurve(Message):
    """How long the fake takes: overhead + per request * rows + per prompt token * all prompts, then at each step
    per token + per row token * rows that still run, in ms.

    A row ends when its own length is reached and the batch at its longest row; all zero is as fast as it
    goes.
    """

    overhead_ms: Duration = 0.0
    per_request_ms: Duration = 0.0
    per_token_ms: Duration = 0.0
    per_prompt_token_ms: Duration = 0.0
    per_row_token_ms: Duration = 0.0

    def first_step_ms(self, rows: int, prompt_tokens: int) -> float:
        """When the first step of a batch begins, in ms from the batch's start."""
        return self.overhead_ms + self.per_request_ms * rows + self.per_prompt_token_ms * prompt_tokens

    @property
    def has_steps(self) -> bool:
        """Whether a longer row ends later."""
        return self.per_token_ms > 0 or self.per_row_token_ms > 0


@dataclass(frozen=True, slots=True)
class Stop:
    """The rows that end together, `at_ms` after the batch's start."""

    at_ms: float
    rows: tuple[EngineRow, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What will happen to a batch, decided before it runs; `completion_tokens` sums the rows that run."""

    refused: tuple[RowRefused, ...]
    started: BatchStarted
    stops: tuple[Stop, ...]


def plan_batch(rows: Sequence[EngineRow], curve: FakeCurve) -> Plan:
    """Sort the rows into those refused and those that end together, soonest first."""
    refused = tuple(told for told in map(_refusal, rows) if told is not None)
    turned_away = {told.index for told in refused}
    running = [row for row in rows if row.index not in turned_away]
    prompt = sum(prompt_tokens(row.request) for row in running)
    room = sum(row.request.max_tokens * row.request.n for row in running)
    started = BatchStarted(rows=len(running), prompt_tokens=prompt, tokens=prompt + room)
    return Plan(
        refused=refused,
        started=started,
        stops=_stops(running, curve, first_ms=curve.first_step_ms(len(running), prompt)),
    )


def _stops(running: list[EngineRow], curve: FakeCurve, *, first_ms: float) -> tuple[Stop, ...]:
    """A faulty row comes first among those that end with it: a fault takes the whole step down."""
    if not curve.has_steps:
        running.sort(key=lambda row: fault_of(row.request) is None)
        return (Stop(first_ms, tuple(running)),) if running else ()
    running.sort(key=lambda row: (output_tokens(row.request), fault_of(row.request) is None))
    stops, left, ended_tokens = [], len(running), 0
    for length, group in groupby(running, key=lambda row: output_tokens(row.request)):
        rows = tuple(group)
        steps_ms = curve.per_token_ms * length + curve.per_row_token_ms * (ended_tokens + left * length)
        stops.append(Stop(first_ms + steps_ms, rows))
        left, ended_tokens = left - len(rows), ended_tokens + len(rows) * length
    return tuple(stops)


def fault_of(request: Request) -> Fault | None:
    """The fault this request asks for; one it knows nothing of has been refused before."""
    if request.metadata is None:
        return None
    return cast("Fault | None", request.metadata.get("fake"))


def _refusal(row: EngineRow) -> RowRefused | None:
    fault = fault_of(row.request)
    if fault is None:
        return None
    if fault == "refuse":
        return RowRefused(index=row.index, code="invalid_request", message="refused as its metadata asks")
    if fault not in get_args(Fault):
        known = ", ".join(get_args(Fault))
        return RowRefused(index=row.index, code="invalid_request", message=f"metadata.fake is not one of {known}")
    return None


def too_much(rows: Sequence[EngineRow]) -> str | None:
    """Why these rows together are more than the fake's memory holds, as one's metadata says; None if they fit."""
    for row in rows:
        metadata = row.request.metadata
        if metadata is not None and type(most := metadata.get("fake_oom_over")) is int and len(rows) > most:
            return f"the fake engine holds {most} rows, as the metadata of row {row.index} says, and not {len(rows)}"
    return None


def prompt_tokens(request: Request) -> int:
    """One for each 4 characters begun, as English has it; the ids themselves for a list of ids."""
    if request.prompt is not None:
        return (len(request.prompt) + 3) // 4
    if request.messages is not None:
        return sum((len(message.content) + 3) // 4 for message in request.messages)
    return len(request.prompt_token_ids or ())


def output_tokens(request: Request) -> int:
    """`max_tokens`, or what the metadata's `fake_tokens` says when that is less; at least 1."""
    if request.metadata is None:
        return request.max_tokens
    wanted = request.metadata.get("fake_tokens")
    return max(1, min(wanted, request.max_tokens)) if type(wanted) is int else request.max_tokens


def output_text(request: Request, sample: int = 0) -> str:
    """What the fake answers: `echo:`, the id, a checksum of the prompt, the sample's number; then filler."""
    return _text(request, sample, output_tokens(request))


def _text(request: Request, sample: int, length: int) -> str:
    if request.prompt is not None:
        asked = request.prompt
    elif request.messages is not None:
        asked = "\n".join(message.content for message in request.messages)
    else:
        asked = " ".join(map(str, request.prompt_token_ids or ()))
    filler = _WORD * (length - 1)
    cycles = _CYCLE if filler <= len(_CYCLE) else _CYCLE * (filler // len(_CYCLE) + 1)
    mark = crc32(asked.encode("utf-8", "surrogatepass"))
    return f"echo:{request.id}:{mark:08x}:{sample}{cycles[:filler]}"


def row_done(row: EngineRow, *, ran_ms: float, proof: Proof) -> RowDone:
    """The row's answer."""
    request = row.request
    length = output_tokens(request)
    if request.n == 1:
        outputs: tuple[Output, ...] = (_output(request, 0, length),)
    else:
        outputs = tuple(_output(request, sample, length) for sample in range(request.n))
    usage = _usage(prompt_tokens(request), length * request.n)
    return made(
        RowDone,
        {
            "event": "row",
            "index": row.index,
            "outputs": outputs,
            "usage": usage,
            "ran_ms": ran_ms,
            "proof": proof,
        },
    )


def _output(request: Request, sample: int, length: int) -> Output:
    return made(
        Output,
        {
            "index": sample,
            "text": _text(request, sample, length),
            "finish_reason": "length" if length == request.max_tokens else "stop",
            "stop_reason": None,
            "token_ids": tuple(range(length)) if request.return_token_ids else None,
            "logprobs": None if request.logprobs is None else tuple(map(_certain, range(length))),
        },
    )


def _certain(token: int) -> tuple[TokenLogprob, ...]:
    return (TokenLogprob(token_id=token, token=str(token), logprob=0.0, rank=1),)


@lru_cache(maxsize=4096)
def _usage(prompt: int, completion: int) -> Usage:
    """Frozen, so one object serves every row with the same counts."""
    return Usage(prompt_tokens=prompt, completion_tokens=completion, total_tokens=prompt + completion)
