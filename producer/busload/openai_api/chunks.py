"""From a Result to the chunks of a streamed answer. A row's text comes in one chunk: it is known at its end only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from busload_shared.result import Output, Result

from .answers import (
    AnswerUsage,
    ChatLogprobs,
    Choice,
    FinishReason,
    OpenAIObject,
    as_chat_logprobs,
    as_choice,
    as_finish_reason,
    usage_of,
)


class Delta(OpenAIObject):
    """What this chunk adds to the message."""

    role: Literal["assistant"] = "assistant"
    content: str


class ChunkChoice(OpenAIObject):
    """One whole sample."""

    index: int
    delta: Delta
    logprobs: ChatLogprobs | None
    finish_reason: FinishReason


class ChatChunk(OpenAIObject):
    """A chunk of a streamed /v1/chat/completions; the one that tells the usage has no choices."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: AnswerUsage | None = None


class CompletionChunk(OpenAIObject):
    """A chunk of a streamed /v1/completions; the one that tells the usage has no choices."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: list[Choice]
    usage: AnswerUsage | None = None


def as_chunks(
    endpoint: str, result: Result, *, model: str, created: int, include_usage: bool, top_logprobs: int | None = None
) -> Iterator[ChatChunk | CompletionChunk]:
    """A chunk for each sample of a result that succeeded, and one with the usage where it is asked for."""
    usage = usage_of(result) if include_usage else None
    if endpoint == "/v1/chat/completions":
        name = f"chatcmpl-{result.id}"
        for output in result.outputs:
            choice = _chunk_choice(output, top_logprobs)
            yield ChatChunk(id=name, created=created, model=model, choices=[choice])
        if usage is not None:
            yield ChatChunk(id=name, created=created, model=model, choices=[], usage=usage)
        return
    name = f"cmpl-{result.id}"
    for output in result.outputs:
        yield CompletionChunk(id=name, created=created, model=model, choices=[as_choice(output, top_logprobs)])
    if usage is not None:
        yield CompletionChunk(id=name, created=created, model=model, choices=[], usage=usage)


def _chunk_choice(output: Output, top: int | None) -> ChunkChoice:
    return ChunkChoice(
        index=output.index,
        delta=Delta(content=output.text),
        logprobs=None if output.logprobs is None else as_chat_logprobs(output.logprobs, top),
        finish_reason=as_finish_reason(output),
    )
