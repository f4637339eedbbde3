"""From a Result to the object that OpenAI's endpoints answer with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict

from busload_shared.result import Output, Result, TokenLogprob

FinishReason = Literal["stop", "length"]

_REASONS: Final[dict[str, FinishReason]] = {"stop": "stop"}
"""Whatever else ended a row cut it short."""


class OpenAIObject(BaseModel):
    """Base of what is answered."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True)


class TopLogprob(OpenAIObject):
    """A token that was considered; `bytes` are its UTF-8, None where it is part of a character only."""

    token: str
    logprob: float
    bytes: list[int] | None


class ChatLogprob(TopLogprob):
    """The token that was sampled, and the likeliest in its place."""

    top_logprobs: list[TopLogprob]


class ChatLogprobs(OpenAIObject):
    """One entry for each new token."""

    content: list[ChatLogprob]
    refusal: None = None


class CompletionLogprobs(OpenAIObject):
    """Lists of one length: an entry for each new token. `text_offset` counts characters of the output."""

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]]
    text_offset: list[int]


class AnswerMessage(OpenAIObject):
    """The model's turn."""

    role: Literal["assistant"] = "assistant"
    content: str
    refusal: None = None


class ChatChoice(OpenAIObject):
    """One sample of a chat. `stop_reason` is the stop text or token that ended it, if one did."""

    index: int
    message: AnswerMessage
    logprobs: ChatLogprobs | None
    finish_reason: FinishReason
    stop_reason: str | int | None = None
    token_ids: list[int] | None = None


class Choice(OpenAIObject):
    """One sample of a completion. `stop_reason` is the stop text or token that ended it, if one did."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: FinishReason
    stop_reason: str | int | None = None
    token_ids: list[int] | None = None


class AnswerUsage(OpenAIObject):
    """Tokens of the request; `completion_tokens` sums its samples."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class ChatCompletion(OpenAIObject):
    """The answer of /v1/chat/completions. `id` is the request's after `chatcmpl-`; `created` is Unix time, s."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[ChatChoice]
    usage: AnswerUsage


class Completion(OpenAIObject):
    """The answer of /v1/completions. `id` is the request's after `cmpl-`; `created` is Unix time, s."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: list[Choice]
    usage: AnswerUsage


def as_answer(
    endpoint: str, result: Result, *, model: str, created: int, top_logprobs: int | None = None
) -> ChatCompletion | Completion:
    """The OpenAI object of a result that succeeded. `created` is Unix time in seconds.

    `top_logprobs` is how many the request asked for, so that a sampled token that is not among them is not listed
    with them; without it as many are listed as there are.
    """
    usage = usage_of(result)
    if endpoint == "/v1/chat/completions":
        return ChatCompletion(
            id=f"chatcmpl-{result.id}",
            created=created,
            model=model,
            choices=[_chat_choice(output, top_logprobs) for output in result.outputs],
            usage=usage,
        )
    return Completion(
        id=f"cmpl-{result.id}",
        created=created,
        model=model,
        choices=[as_choice(output, top_logprobs) for output in result.outputs],
        usage=usage,
    )


def usage_of(result: Result) -> AnswerUsage:
    """The result's usage; zeros where it has none."""
    used = result.usage
    if used is None:
        return AnswerUsage(prompt_tokens=0, completion_tokens=0, total_tokens=0)
    return AnswerUsage(
        prompt_tokens=used.prompt_tokens, completion_tokens=used.completion_tokens, total_tokens=used.total_tokens
    )


def as_finish_reason(output: Output) -> FinishReason:
    """As OpenAI names it."""
    return _REASONS.get(output.finish_reason, "length")


def _chat_choice(output: Output, top: int | None) -> ChatChoice:
    return ChatChoice(
        index=output.index,
        message=AnswerMessage(content=output.text),
        logprobs=None if output.logprobs is None else as_chat_logprobs(output.logprobs, top),
        finish_reason=as_finish_reason(output),
        stop_reason=output.stop_reason,
        token_ids=None if output.token_ids is None else list(output.token_ids),
    )


def as_choice(output: Output, top: int | None) -> Choice:
    """One sample of a completion, with at most `top` tokens at each place."""
    return Choice(
        index=output.index,
        text=output.text,
        logprobs=None if output.logprobs is None else _completion_logprobs(output.logprobs, top),
        finish_reason=as_finish_reason(output),
        stop_reason=output.stop_reason,
        token_ids=None if output.token_ids is None else list(output.token_ids),
    )


def as_chat_logprobs(positions: Sequence[Sequence[TokenLogprob]], top: int | None) -> ChatLogprobs:
    """One entry for each new token, with at most `top` others."""
    return ChatLogprobs(
        content=[
            ChatLogprob(
                token=position[0].token,
                logprob=position[0].logprob,
                bytes=_bytes(position[0].token),
                top_logprobs=[
                    TopLogprob(token=one.token, logprob=one.logprob, bytes=_bytes(one.token))
                    for one in _likeliest(position, top)
                ],
            )
            for position in positions
            if position
        ]
    )


def _completion_logprobs(positions: Sequence[Sequence[TokenLogprob]], top: int | None) -> CompletionLogprobs:
    sampled = [position[0] for position in positions if position]
    offsets, at = [], 0
    for one in sampled:
        offsets.append(at)
        at += len(one.token)
    return CompletionLogprobs(
        tokens=[one.token for one in sampled],
        token_logprobs=[one.logprob for one in sampled],
        top_logprobs=[
            {one.token: one.logprob for one in _likeliest(position, top)} for position in positions if position
        ],
        text_offset=offsets,
    )


def _likeliest(position: Sequence[TokenLogprob], top: int | None) -> list[TokenLogprob]:
    """The likeliest first, at most `top`."""
    return sorted(position, key=lambda one: -one.logprob)[:top]


def _bytes(token: str) -> list[int] | None:
    return None if "�" in token else list(token.encode("utf-8", "surrogatepass"))
