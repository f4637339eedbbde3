"""The request: what a producer writes. Parsed once, at the door; frozen and trusted after."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    model_validator,
)

from .crowding import MAX_CONTAINERS, crowded
from .errors import RequestInvalid
from .trace_context import TraceContext

MAX_ID_CHARACTERS = 256
MAX_PAYLOAD_BYTES = 1_048_576
"""Largest element a worker parses, in bytes of JSON. A larger one is answered with an error."""

MAX_JSON_VALUES = 20_000
"""Values in metadata, and in a JSON schema, those in its lists and objects counted."""

_SHOWN_CHARACTERS = 64
"""An unknown field's name is shown up to here: it may be any text, a prompt too."""

RequestId = Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARACTERS, pattern=r"^[^\s\x00-\x1f\x7f-\x9f]+$")]
"""1 to 256 characters, no white space and no control character: the id ends a Redis key and is read by people."""

Text = Annotated[str, Field(min_length=1)]
TokenId = Annotated[int, Field(ge=0)]
StopText = Annotated[str, Field(min_length=1, max_length=1024)]


# Lists below fail fast: a megabyte of wrong items would else take a second, one error for each.
class Message(BaseModel):
    """Base of all that crosses the wire: frozen, strict about types, unknown fields refused."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


Made = TypeVar("Made", bound=Message)


_new = object.__new__
_put_fields, _put_fields_set, _put_extra, _put_private = (
    vars(BaseModel)[slot].__set__
    for slot in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
)


class _AllFields(dict[type[Message], set[str]]):
    def __missing__(self, model: type[Message]) -> set[str]:
        known = self[model] = set(model.model_fields)
        return known


_all_fields = _AllFields()


def made(model: type[Made], fields: dict[str, Any]) -> Made:
    """A message of values that this program made itself, all fields given, without validation: a hot path's gain.

    pydantic's own model_construct takes five times as long.
    """
    message = _new(model)
    _put_fields(message, fields)
    _put_fields_set(message, _all_fields[model])
    _put_extra(message, None)
    _put_private(message, None)
    return message


_DATA_IN_SCHEMAS = frozenset({"const", "default", "enum", "examples"})
"""Keywords whose values are data, where "$ref" has no meaning."""


class ChatMessage(Message):
    """One turn of a chat. Text only: a part with a URL would make the worker fetch it."""

    role: Annotated[str, Field(min_length=1, max_length=64)]
    content: str
    name: Annotated[str, Field(max_length=256)] | None = None


def _bounded(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Refuse what free JSON must not hold. NaN and infinities: pydantic lets them in there, and they cannot be handed
    back. And small values by the hundred thousand: they take twenty times the memory of their JSON."""
    left: list[JsonValue] = [value]
    count = 0
    while left:
        part = left.pop()
        if isinstance(part, dict | list):
            count += len(part)
            if count > MAX_JSON_VALUES:
                raise ValueError(f"at most {MAX_JSON_VALUES} values are taken, in all its parts together")
            left += part.values() if isinstance(part, dict) else part
        elif isinstance(part, float) and not math.isfinite(part):
            raise ValueError("NaN and infinities are no JSON")
    return value


def _own_references(schema: JsonValue) -> JsonValue:
    """Refuse references to other documents: nothing is fetched, and they would allow anything in their place."""
    if isinstance(schema, dict):
        reference = schema.get("$ref")
        if isinstance(reference, str) and not reference.startswith("#"):
            raise ValueError("$ref may point into this schema only, as in #/$defs/name")
        for name, part in schema.items():
            if name not in _DATA_IN_SCHEMAS:
                _own_references(part)
    elif isinstance(schema, list):
        for part in schema:
            _own_references(part)
    return schema


JsonObject = Annotated[dict[str, JsonValue], AfterValidator(_bounded)]


class Sampling(Message):
    """How to sample, under the names vLLM and OpenAI use; the defaults are vLLM's unless noted.

    `temperature` 0 is greedy. `stop` texts end the output and are not part of it. `logprobs` asks for so many likeliest
    tokens at each new token. `ignore_eos` goes on past the model's end token. At most one of `json_schema`, `regex`,
    `choice` (the output is one of these) and `grammar` (EBNF as vLLM takes it) shapes the output.
    """

    max_tokens: Annotated[int, Field(ge=1, le=1_000_000)] = 256
    """New tokens at most. vLLM's own default is 16, which cuts nearly every answer."""
    min_tokens: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    temperature: Annotated[float, Field(ge=0, le=100)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    top_k: Annotated[int, Field(ge=-1, le=1_000_000)] = 0
    """0 and -1 consider all tokens."""
    min_p: Annotated[float, Field(ge=0, le=1)] = 0.0
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    stop: Annotated[tuple[StopText, ...], Field(max_length=64, fail_fast=True)] = ()
    stop_token_ids: Annotated[tuple[TokenId, ...], Field(max_length=256, fail_fast=True)] = ()
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] = 0.0
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] = 0.0
    repetition_penalty: Annotated[float, Field(gt=0, le=10)] = 1.0
    n: Annotated[int, Field(ge=1, le=16)] = 1
    """Samples for one prompt. Each takes a seat's worth of memory in the engine."""
    logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    ignore_eos: bool = False
    json_schema: Annotated[JsonObject, AfterValidator(_own_references)] | None = None
    regex: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
    choice: Annotated[tuple[Text, ...], Field(min_length=1, max_length=1024, fail_fast=True)] | None = None
    grammar: Annotated[str, Field(min_length=1, max_length=65536)] | None = None

    @model_validator(mode="after")
    def _samples_make_sense(self) -> Self:
        if self.min_tokens > self.max_tokens:
            raise ValueError(f"min_tokens ({self.min_tokens}) is over max_tokens ({self.max_tokens})")
        if self.n > 1 and self.temperature == 0:
            raise ValueError("n > 1 needs temperature > 0: greedy samples are all the same")
        if (self.json_schema, self.regex, self.choice, self.grammar).count(None) < 3:
            raise ValueError("give at most one of json_schema, regex, choice, grammar")
        return self


class Request(Sampling):
    """One request. Exactly one of `prompt`, `prompt_token_ids` and `messages` is given.

    `deadline` is Unix time in seconds, `ttl_s` seconds from arrival; at most one of them. Past it the
    request is not run and its result is `expired`. `route` is a free label under which output lengths are
    learned. `metadata` is handed back in the result untouched. `created_at` is information, never a trigger.
    `prompt_token_ids` are the model's own ids, a flat tuple; `messages` the turns of a chat, oldest first.
    Making one raises pydantic's ValidationError; the clients' methods raise RequestInvalid instead.
    """

    v: Literal[1] = 1
    id: RequestId
    prompt: Text | None = None
    prompt_token_ids: (
        Annotated[tuple[TokenId, ...], Field(min_length=1, max_length=1_000_000, fail_fast=True)] | None
    ) = None
    messages: Annotated[tuple[ChatMessage, ...], Field(min_length=1, max_length=4096, fail_fast=True)] | None = None
    priority: Annotated[int, Field(ge=-100, le=100)] = 0
    """Higher is sooner: one point boards like ten seconds of waiting, so that nobody waits for ever."""
    deadline: Annotated[float, Field(gt=0)] | None = None
    ttl_s: Annotated[float, Field(gt=0, le=31_536_000)] | None = None
    route: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    return_token_ids: bool = False
    created_at: float | None = None
    metadata: JsonObject | None = None
    trace: TraceContext | None = None
    """The span this was sent from; the client fills it in where OpenTelemetry is in use. Handed back in the result."""

    @model_validator(mode="after")
    def _one_prompt_one_deadline(self) -> Self:
        if (self.prompt, self.prompt_token_ids, self.messages).count(None) != 2:
            raise ValueError("give exactly one of prompt, prompt_token_ids, messages")
        if self.deadline is not None and self.ttl_s is not None:
            raise ValueError("give deadline or ttl_s, not both")
        return self

    def expires_at_ms(self, arrival_ms: float) -> float | None:
        """When this request is no longer worth running: Unix ms on the Redis clock, None for never."""
        if self.deadline is not None:
            return self.deadline * 1000
        return None if self.ttl_s is None else arrival_ms + self.ttl_s * 1000


_read_json = Request.__pydantic_validator__.validate_json


def parse_request(payload: bytes) -> Request:
    """Read one request from JSON. Raises RequestInvalid with a reason that names the field."""
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise RequestInvalid(f"the request is {len(payload)} bytes; the limit is {MAX_PAYLOAD_BYTES}")
    if crowded(payload):
        raise RequestInvalid(f"the request has more than {MAX_CONTAINERS} lists and objects")
    try:
        return cast(Request, _read_json(payload))
    except ValidationError as error:
        raise RequestInvalid(reason(error)) from None


def reason(error: ValidationError) -> str:
    """Say in one short line what is wrong and where, without repeating the producer's text."""
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    # after a wrong item, that the list is now too short is no news
    wrong = {p["loc"][:-1] for p in problems}
    problems = [p for p in problems if p["type"] != "too_short" or p["loc"] not in wrong]
    lines = [f"{'.'.join(map(_shown, p['loc'])) or 'request'}: {p['msg']}" for p in problems[:5]]
    more = len(problems) - len(lines)
    return "; ".join(lines) + (f"; and {more} more" if more > 0 else "")


def _shown(name: str | int) -> str:
    """A field's name, which is the producer's text where the field is unknown: cut, and on one line."""
    text = str(name)
    if len(text) > _SHOWN_CHARACTERS:
        text = text[:_SHOWN_CHARACTERS] + "…"
    return text if text.isprintable() else repr(text)
