"""From an entry and its answer to the record that is written: OpenAI's lines, plain JSON lines, or CSV."""

from __future__ import annotations

import csv
import io
import json
from typing import Any, Protocol

from pydantic_core import to_json

from busload_shared.errors import BusloadError
from busload_shared.result import Result

from ..openai_api.answers import as_answer
from ..openai_api.errors import Refusal, as_refusal, failed
from ..openai_api.invalid import ParameterInvalid
from .entry import Entry
from .flight import Answer


class Encoder(Protocol):
    """Writes records that begin with the request's id, and end with a line break."""

    header: bytes

    def record(self, entry: Entry, answer: Answer) -> bytes: ...


class OpenAILines:
    """The output and error files of OpenAI's Batch API. In a line without a response `error` has the line's number."""

    header = b""

    def record(self, entry: Entry, answer: Answer) -> bytes:
        head = f'{{"id":"{entry.id}","custom_id":{_text(entry.custom_id)},'.encode()
        if isinstance(answer, Result):
            refused = failed(answer)
            return head + (_answered(entry, answer) if refused is None else _refused(entry, refused)) + b"}\n"
        if entry.one is not None:
            return head + _refused(entry, as_refusal(answer)) + b"}\n"
        param = answer.param if isinstance(answer, ParameterInvalid) else None
        told = {"code": "invalid_request", "message": str(answer), "param": param, "line": entry.number}
        return head + b'"response":null,"error":' + to_json(told) + b"}\n"


def _answered(entry: Entry, result: Result) -> bytes:
    created = int((result.timing.finished_ms if result.timing else 0) / 1000)
    body = as_answer(
        entry.endpoint, result, model=entry.model, created=created, top_logprobs=entry.top_logprobs
    ).model_dump_json()
    return f'"response":{{"status_code":200,"request_id":"{entry.id}","body":{body}}},"error":null'.encode()


def _refused(entry: Entry, refusal: Refusal) -> bytes:
    body = refusal.body.model_dump_json()
    return (
        f'"response":{{"status_code":{refusal.status},"request_id":"{entry.id}","body":{body}}},"error":null'.encode()
    )


class PlainLines:
    """A Result as JSON with the line's number and its own name in front. Status `invalid`: it is no request."""

    header = b""

    def record(self, entry: Entry, answer: Answer) -> bytes:
        head = f'{{"id":"{entry.id}","line":{entry.number},"custom_id":{_text(entry.custom_id)},'.encode()
        if isinstance(answer, Result):
            rest = answer.model_dump_json(exclude=_SAID_BEFORE, exclude_none=True).encode()
            return head + rest[1:] + b"\n"
        status, code = _status_of(entry, answer)
        told = {"status": status, "outputs": [], "error": {"code": code, "message": str(answer)}}
        return head + to_json(told)[1:] + b"\n"


class TableRows:
    """CSV: a row for each entry. `text` is the first sample's; `metadata` is JSON."""

    COLUMNS = (
        "id", "line", "custom_id", "status", "text", "finish_reason", "prompt_tokens", "completion_tokens",
        "error_code", "error_message", "attempts", "metadata",
    )  # fmt: skip
    header: bytes = (",".join(COLUMNS) + "\n").encode()

    def record(self, entry: Entry, answer: Answer) -> bytes:
        row: list[Any] = [entry.id, entry.number, entry.custom_id]
        if isinstance(answer, Result):
            row += _cells(answer)
        else:
            status, code = _status_of(entry, answer)
            row += [status, None, None, None, None, code, str(answer), None, None]
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(row)
        return line.getvalue().encode("utf-8", "replace")


_SAID_BEFORE = {"v", "id"}


def _cells(result: Result) -> list[Any]:
    output = result.outputs[0] if result.outputs else None
    usage, error = result.usage, result.error
    return [
        result.status,
        output.text if output else None,
        output.finish_reason if output else None,
        usage.prompt_tokens if usage else None,
        usage.completion_tokens if usage else None,
        error.code if error else None,
        error.message if error else None,
        result.attempts,
        None if result.metadata is None else json.dumps(result.metadata, ensure_ascii=False),
    ]


def _status_of(entry: Entry, error: BusloadError) -> tuple[str, str]:
    """A line that is no request is `invalid`; a request the queue did not take or lost has `failed`."""
    if entry.one is None:
        return "invalid", "invalid_request"
    return "failed", as_refusal(error).detail.code or "engine_error"


def _text(name: str | None) -> str:
    return "null" if name is None else to_json(name).decode()
