"""The parameters that both bodies have, and what becomes of those Busload has no use for."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import ConfigDict, Field

from busload_shared.request import JsonObject, Message

from .invalid import ParameterInvalid

IGNORED: Final = frozenset(
    {
        "user", "safety_identifier", "service_tier", "prompt_cache_key", "prompt_cache_retention",
        "prompt_cache_options", "prediction", "parallel_tool_calls", "skip_special_tokens",
        "spaces_between_special_tokens", "request_id",
    }
)  # fmt: skip
"""Harmless: the answer is as good without them."""

NEUTRAL: Final[dict[str, tuple[Any, ...]]] = {
    "tools": ([],), "tool_choice": ("none", "auto"), "functions": ([],), "function_call": ("none", "auto"),
    "audio": (), "modalities": (["text"],), "web_search_options": (), "moderation": (), "store": (False,),
    "reasoning_effort": ("none",), "verbosity": ("medium",), "logit_bias": ({},), "suffix": ("",), "echo": (False,),
    "use_beam_search": (False,), "length_penalty": (1, 1.0), "include_stop_str_in_output": (False,),
    "bad_words": ([],), "allowed_token_ids": ([],), "prompt_logprobs": (), "truncate_prompt_tokens": (),
    "best_of": (), "stream_include_obfuscation": (False,), "guided_decoding_backend": ("auto",),
    "guided_whitespace_pattern": (), "chat_template": (), "chat_template_kwargs": ({},),
    "continue_final_message": (False,), "add_generation_prompt": (True,), "add_special_tokens": (True, False),
}  # fmt: skip
"""Known and not supported: refused, but for the values that ask for nothing. null always does."""

_USED_ONLY_WITH = {"tool_choice": "tools", "function_call": "functions"}


class StreamOptions(Message):
    """`include_usage`: a last chunk tells the tokens used."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore")

    include_usage: bool | None = None


class StructuredOutputs(Message):
    """At most one of these; the output is forced into that shape."""

    json_: JsonObject | str | None = Field(None, alias="json")
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None


class Parameters(Message):
    """How to sample, and Busload's own: `priority` (higher is sooner), `ttl_s` or `deadline`, `route`.

    A parameter that is null was not given. Unknown ones are refused, and so are known ones that Busload cannot honour.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow")

    model: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """One that /v1/models lists; without one the queue's."""
    max_tokens: int | None = None
    min_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    n: int | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    ignore_eos: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    structured_outputs: StructuredOutputs | None = None
    guided_json: JsonObject | str | None = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = None
    guided_grammar: str | None = None
    metadata: JsonObject | None = None
    priority: int | None = None
    ttl_s: float | None = None
    deadline: float | None = None
    route: str | None = None
    return_token_ids: bool | None = None


SAME: Final = (
    "max_tokens", "min_tokens", "temperature", "top_p", "top_k", "min_p", "n", "seed", "presence_penalty",
    "frequency_penalty", "repetition_penalty", "ignore_eos", "metadata", "priority", "ttl_s", "deadline", "route",
    "return_token_ids",
)  # fmt: skip
"""Parameters a Request has under the same name, and takes as they are."""

Shape = Literal["json_schema", "regex", "choice", "grammar"]


def refuse_the_rest(body: Parameters) -> None:
    """Raise ParameterInvalid for a parameter that is unknown, or asks for what Busload does not do."""
    rest = body.model_extra
    if not rest:
        return
    for name, value in rest.items():
        if name in IGNORED:
            continue
        if name not in NEUTRAL:
            raise ParameterInvalid(
                f"unknown parameter: {name[:64]!r}; leave it out, or see that it is spelled right",
                param=name[:64],
                code="unknown_parameter",
            )
        if value is None or value in NEUTRAL[name] or (name == "best_of" and value == (body.n or 1)):
            continue
        if name in _USED_ONLY_WITH and not rest.get(_USED_ONLY_WITH[name]):
            continue
        raise ParameterInvalid(
            f"{name}: not supported by this server; leave it out", param=name, code="unsupported_parameter"
        )
