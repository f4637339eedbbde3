"""What an engine is: it takes one batch, runs it as one unit, and tells of each row as it ends.

A new engine is one file with a class that satisfies `Core`: synchronous, single-threaded, no Redis, no
asyncio. The host (`host.py`, `host_child.py`) puts a Core into a process of its own; `Engine` is what the
worker's loop sees, whichever way the core is run.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol, Self

from pydantic import Field

from busload_shared.request import Message, Request
from busload_shared.result import ErrorCode, Output, Proof, Usage


@dataclass(frozen=True, slots=True)
class EngineRow:
    """One seat of a batch. `index` is the row's place in the batch, from 0."""

    index: int
    request: Request


class EngineInfo(Message):
    """What a started engine is and can hold.

    `max_model_len` is in tokens, prompt and output together; `kv_tokens` is what the KV cache holds, in
    tokens; both None where the engine has no such limit.
    """

    engine: str
    model: str
    version: str
    max_model_len: int | None = None
    kv_tokens: int | None = None
    pid: int | None = None


class BatchStarted(Message):
    """All good rows are in; the run begins. `tokens` sums prompt + max_tokens * n over the rows that run. `at` is the
    moment, s on the monotonic clock, which all processes of a machine share: the worker may hear of it much later."""

    event: Literal["started"] = "started"
    at: float = Field(default_factory=time.monotonic)
    rows: int
    prompt_tokens: int
    tokens: int


class RowDone(Message):
    """A row ended by itself. `ran_ms` is from the batch's start to the row's last token."""

    event: Literal["row"] = "row"
    index: int
    outputs: tuple[Output, ...]
    usage: Usage
    ran_ms: float
    proof: Proof | None = None


class RowRefused(Message):
    """A row that this engine will not or could not run; its neighbours are not touched."""

    event: Literal["refused"] = "refused"
    index: int
    code: ErrorCode
    message: str


class BatchDone(Message):
    """The batch is over: every row has been told. `proof` is the worst over the rows."""

    event: Literal["done"] = "done"
    ran_ms: float
    prompt_tokens: int
    completion_tokens: int
    proof: Proof | None = None


EngineEvent = Annotated[BatchStarted | RowDone | RowRefused | BatchDone, Field(discriminator="event")]


class Core(Protocol):
    """An engine proper. Runs in the thread that made it. An exception from `run` fails the batch only, but
    EngineDied says that the core must not go on: its process ends. One that says that memory was short (OutOfMemory,
    MemoryError, or torch's own) has the rows that are left run again in halves at once.

    `run` emits, in this order: a RowRefused for each row that is not run, one BatchStarted, a RowDone (or a
    late RowRefused) for each row the moment it ends, one BatchDone. `aborted` names the rows that are no
    longer wanted; it is asked between steps, and an aborted row gets no event. `tick` is called between
    steps, to show progress.
    """

    @classmethod
    def from_json(cls, config: str) -> Self:
        """Make it from its settings, as JSON. Raises EngineStartFailed when they are wrong."""
        ...

    def load(self) -> EngineInfo:
        """Make ready to run. Raises EngineStartFailed, saying which setting to change."""
        ...

    def run(
        self,
        rows: Sequence[EngineRow],
        *,
        emit: Callable[[BatchStarted | RowDone | RowRefused | BatchDone], None],
        aborted: Callable[[], frozenset[int]],
        tick: Callable[[], None],
    ) -> None: ...

    def close(self) -> None:
        """Free what `load` took. Called once, also after a failed `load`."""
        ...


class Engine(Protocol):
    """An engine as the worker sees it. One batch at a time."""

    async def start(self) -> EngineInfo:
        """Load, or load again after a death. Raises EngineStartFailed."""
        ...

    def run(self, batch: str, rows: Sequence[EngineRow]) -> AsyncIterator[EngineEvent]:
        """Run one batch; see Core for the order of events. Raises EngineDied (EngineAbsent when it was gone before
        the batch came), or BatchFailed if it still lives (OutOfMemory when fewer rows at once may go through)."""
        ...

    def abort(self, indexes: frozenset[int]) -> None:
        """Stop these rows of the running batch; they get no event."""
        ...

    async def kill(self) -> None:
        """End it now, whatever it does: a hung run then raises EngineDied."""
        ...

    async def stop(self) -> None:
        """End it in good order."""
        ...
