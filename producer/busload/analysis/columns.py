"""The columns of an exported result, each with its kind and what it holds."""

from __future__ import annotations

import json
from typing import Any, Final, Literal, NamedTuple

from busload_shared.archive import Seen
from busload_shared.errors import BusloadError
from busload_shared.result import Result

from ..looking import parsed

Kind = Literal["text", "whole", "number", "time"]
"""`whole` has no fraction; `time` is Unix time in ms, written as a time of day in UTC where the format has one."""


class Column(NamedTuple):
    """One column. All but `id` may be empty."""

    name: str
    kind: Kind
    meaning: str


COLUMNS: Final = (
    Column("id", "text", "the request's id"),
    Column(
        "state", "text", "`unknown`, `waiting`, `running`, `answered`, `expired`; empty where your rights do not tell"
    ),
    Column("status", "text", "of an answer: `succeeded`, `failed`, `cancelled`, `expired`"),
    Column("text", "text", "the first sample's text"),
    Column("finish_reason", "text", "of the first sample"),
    Column("samples", "whole", "how many samples there are"),
    Column("prompt_tokens", "whole", "tokens of the prompt"),
    Column("completion_tokens", "whole", "new tokens, all samples together"),
    Column("error_code", "text", "why there is no text; `unreadable`: a newer version wrote this result"),
    Column("error_message", "text", "the same for people"),
    Column("batch", "text", "the batch it ran in"),
    Column("batch_size", "whole", "rows of that batch"),
    Column("batch_position", "whole", "its place there, from 0"),
    Column("trigger", "text", "why the batch left: `full`, `timeout`, `drain`, `retry`"),
    Column("enqueued_at", "time", "when it came, by the Redis clock"),
    Column("started_at", "time", "when its batch began to run"),
    Column("finished_at", "time", "when its last token was there"),
    Column("waited_ms", "number", "from its coming to the start of the run"),
    Column("run_ms", "number", "from the start to its last token"),
    Column("held_ms", "number", "from its last token to its release"),
    Column("worker", "text", "who ran it"),
    Column("attempts", "whole", "runs it was in"),
    Column("metadata", "text", "the request's, as JSON"),
    Column("outputs", "text", "all samples as JSON, where one text is not all there is"),
)

NAMES: Final = tuple(column.name for column in COLUMNS)

Row = tuple[Any, ...]


def row_of(request_id: str, seen: Seen) -> Row:
    """The values of all columns, in order."""
    try:
        result = parsed(request_id, seen.stored)
    except BusloadError as error:
        unreadable = {"id": request_id, "state": seen.state, "error_code": "unreadable", "error_message": str(error)}
        return tuple(unreadable.get(name) for name in NAMES)
    if result is None:
        return (request_id, seen.state, *(None,) * (len(NAMES) - 2))
    return (request_id, seen.state, *_answer(result), *_run(result), *_rest(result))


def _answer(result: Result) -> Row:
    output, usage, error = result.outputs[0] if result.outputs else None, result.usage, result.error
    return (
        result.status,
        output.text if output else None,
        output.finish_reason if output else None,
        len(result.outputs),
        usage.prompt_tokens if usage else None,
        usage.completion_tokens if usage else None,
        error.code if error else None,
        error.message if error else None,
    )


def _run(result: Result) -> Row:
    batch, timing = result.batch, result.timing
    ran = (batch.id, batch.size, batch.position, batch.trigger) if batch else (None,) * 4
    if timing is None:
        return (*ran, *(None,) * 6)
    times = (timing.enqueued_ms, timing.started_ms, timing.finished_ms)
    return (*ran, *times, timing.waited_ms, timing.run_ms, timing.held_ms)


def _rest(result: Result) -> Row:
    more = len(result.outputs) > 1 or any(one.logprobs or one.token_ids for one in result.outputs)
    outputs = [one.model_dump(mode="json", exclude_none=True) for one in result.outputs] if more else None
    return (result.worker, result.attempts, _json(result.metadata), _json(outputs))


def _json(value: object) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)
