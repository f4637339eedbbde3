"""The result: what a worker writes, exactly once for each request id."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field, JsonValue

from .request import Message
from .trace_context import TraceContext

Status = Literal["succeeded", "failed", "cancelled", "expired"]
Trigger = Literal["full", "timeout", "drain", "retry"]
"""Why the batch left: it was full, its oldest had waited `max_wait_ms`, the queue is being drained, or its
rows are run again after the batch they were in died."""

FinishReason = Literal["stop", "length", "repetition", "abort", "error"]
ErrorCode = Literal["invalid_request", "prompt_too_long", "too_heavy", "poison", "engine_error", "cancelled", "expired"]


class ResultPart(Message):
    """Base of a result's parts. Unlike a request's, unknown fields are ignored: a newer worker may add some."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore")


class TokenLogprob(ResultPart):
    """A token the model considered at one position, with its log probability (natural log) and its rank, 1 the
    likeliest."""

    token_id: int
    token: str
    logprob: float
    rank: int | None = None


class Output(ResultPart):
    """One sample; `index` counts them from 0.

    `token_ids` are the new tokens, if they were asked for. `logprobs` has one entry for each new token: the sampled
    token and the asked-for likeliest. `stop_reason` is the stop text or token id that ended it, if one did.
    """

    index: int
    text: str
    finish_reason: FinishReason
    stop_reason: str | int | None = None
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[tuple[TokenLogprob, ...], ...] | None = None


class Usage(ResultPart):
    """Tokens of this request; `completion_tokens` sums its samples."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class ResultError(ResultPart):
    """What went wrong: `code` for programs, `message` for people."""

    code: ErrorCode
    message: str


class BatchInfo(ResultPart):
    """The batch this request rode in: `size` rows, of which this was the one at `position`, from 0.

    `tokens` is the sum over its rows of prompt + max_tokens * n; 0 when it did not run.
    """

    id: str
    size: int
    position: int
    trigger: Trigger
    tokens: int = 0


class Proof(ResultPart):
    """That the batch ran as one unit, from the engine's own clock at the time this row ended.

    `spread_ms`: between the first and the last row's scheduling; 0 when all were admitted in one step.
    `preemptions`: times this row was put back for lack of memory. `gap_ms`: from the previous batch's last
    token to this batch's scheduling, None for the engine's first batch; negative would be an overlap.
    """

    spread_ms: float
    preemptions: int
    gap_ms: float | None = None

    @property
    def holds(self) -> bool:
        """Whether the row was admitted with all others, never put back, after the previous batch ended."""
        return self.spread_ms == 0 and self.preemptions == 0 and (self.gap_ms is None or self.gap_ms >= 0)


class Timing(ResultPart):
    """Unix milliseconds on the Redis clock, and durations in milliseconds.

    `waited_ms` from enqueue to the start of the run; `run_ms` from the start to the row's last token;
    `held_ms` from the row's last token to its release: 0 when rows are released one by one.
    """

    enqueued_ms: float
    claimed_ms: float | None = None
    started_ms: float | None = None
    finished_ms: float
    waited_ms: float
    run_ms: float = 0.0
    held_ms: float = 0.0
    proof: Proof | None = None


class Result(ResultPart):
    """The answer to one request: `outputs` and `usage` when it succeeded, `error` when it did not.

    `outputs` has `n` samples, one unless asked for more. `batch` and `timing` are None when it was never claimed.
    """

    v: Literal[1] = 1
    id: str
    status: Status
    outputs: tuple[Output, ...] = ()
    usage: Usage | None = None
    error: ResultError | None = None
    batch: BatchInfo | None = None
    timing: Timing | None = None
    worker: str | None = None
    attempts: Annotated[int, Field(ge=0)] = 1
    """Runs this request was in, the answering one included; 0 when it never ran."""
    metadata: dict[str, JsonValue] | None = None
    trace: TraceContext | None = None
    """The request's: the span it was sent from."""

    @property
    def text(self) -> str:
        """The first sample's text; empty when the request did not succeed."""
        return self.outputs[0].text if self.outputs else ""
