"""What the worker and the engine's process say to each other: one JSON object a line, over two pipes.

The worker writes a Setup, then commands; the child writes a Ready or a StartFailed, then reports.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from busload_shared.request import Message

from .protocol import EngineEvent, EngineInfo, EngineRow, RowRefused

MAX_LINE_BYTES = 64 * 1024 * 1024
"""Longest report a child writes and a worker reads; a row whose answer is longer is refused instead."""


class Setup(Message):
    """The child's first line. `core` is "vllm", "fake" or `package.module:Class`; `config` its settings as
    JSON.

    `parent` is the worker's process id: a child whose parent is another one by now ends at once.
    """

    core: str
    config: str
    parent: int
    beat_s: float


class RunRow(Message):
    """One row. `request` is the request's JSON as text: at the depth it was parsed before, and one that
    cannot be read fails alone."""

    index: int
    request: str


class Run(Message):
    """Run these rows as one batch, after the one that runs now. `run` is new for every attempt at a batch."""

    do: Literal["run"] = "run"
    run: int
    rows: tuple[RunRow, ...]


class Abort(Message):
    """Stop these rows of this run; ignored when it is over."""

    do: Literal["abort"] = "abort"
    run: int
    indexes: tuple[int, ...]


class Stop(Message):
    """End after the batch that runs now."""

    do: Literal["stop"] = "stop"


class Ready(Message):
    """The core is loaded and takes batches."""

    line: Literal["ready"] = "ready"
    info: EngineInfo


class StartFailed(Message):
    """The core cannot be loaded; the child ends after this line."""

    line: Literal["start_failed"] = "start_failed"
    message: str


class Beat(Message):
    """The process is alive. `progress` grows with every step of the engine: one that stands still is hung."""

    line: Literal["beat"] = "beat"
    progress: int


class Told(Message):
    """What the core told of a run."""

    line: Literal["told"] = "told"
    run: int
    event: EngineEvent


class RunFailed(Message):
    """The core's `run` raised, and lives."""

    line: Literal["run_failed"] = "run_failed"
    run: int
    message: str
    out_of_memory: bool = False


Command = Run | Abort | Stop
Report = Ready | StartFailed | Beat | Told | RunFailed

COMMANDS: TypeAdapter[Command] = TypeAdapter(Annotated[Command, Field(discriminator="do")])
REPORTS: TypeAdapter[Report] = TypeAdapter(Annotated[Report, Field(discriminator="line")])


def to_line(message: Message) -> bytes:
    """One line of JSON, its end included."""
    return message.model_dump_json().encode() + b"\n"


def run_line(run: int, rows: Sequence[EngineRow]) -> tuple[bytes, list[RowRefused]]:
    """The Run command, and the rows that cannot be written as JSON: one such must not fail the others."""
    written: list[RunRow] = []
    refused: list[RowRefused] = []
    for row in rows:
        try:
            written.append(RunRow(index=row.index, request=row.request.model_dump_json()))
        except ValueError:
            refused.append(unreadable(row.index))
    return to_line(Run(run=run, rows=tuple(written))), refused


def unreadable(index: int) -> RowRefused:
    """For a request that cannot be written as JSON, or not be read back."""
    message = "the request holds text that is not valid Unicode, or is nested too deeply"
    return RowRefused(index=index, code="invalid_request", message=message)
