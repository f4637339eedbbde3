"""From the body of an OpenAI request to a Request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, Literal, get_args

from pydantic import ConfigDict, Field, ValidationError
from pydantic_core import PydanticSerializationError, to_json

from busload_shared.crowding import MAX_CONTAINERS, crowded
from busload_shared.request import MAX_PAYLOAD_BYTES, Request, TokenId

from .invalid import ParameterInvalid
from .messages import BodyMessage
from .parameters import SAME, Parameters, refuse_the_rest
from .shapes import ResponseFormat, shape_of

Endpoint = Literal["/v1/chat/completions", "/v1/completions"]

ENDPOINTS: Final[tuple[Endpoint, ...]] = get_args(Endpoint)

MOST_PROMPTS: Final = 1024
"""Prompts of one body at most; who serves it may take less."""

_Text = Annotated[str, Field(min_length=1)]
_TokenIds = Annotated[list[TokenId], Field(min_length=1, max_length=1_000_000, fail_fast=True)]


class ChatBody(Parameters):
    """The body of POST /v1/chat/completions."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        title="Chat body",
        json_schema_extra={
            "examples": [{"messages": [{"role": "user", "content": "What is a bus?"}], "max_tokens": 16}]
        },
    )

    messages: Annotated[list[BodyMessage], Field(min_length=1, max_length=4096, fail_fast=True)]
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    response_format: ResponseFormat | None = None

    def fields(self) -> dict[str, Any]:
        """What a request has under another name. Raises ParameterInvalid."""
        fields: dict[str, Any] = {"messages": tuple([one.as_message(at) for at, one in enumerate(self.messages)])}
        if self.max_completion_tokens is not None:
            fields["max_tokens"] = self.max_completion_tokens
        if self.logprobs:
            fields["logprobs"] = self.top_logprobs or 0
        elif self.top_logprobs:
            raise ParameterInvalid("top_logprobs: needs logprobs: true", param="top_logprobs")
        return fields


class CompletionBody(Parameters):
    """The body of POST /v1/completions. `prompt` is a text, the token ids of one, or a list of either."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        title="Completion body", json_schema_extra={"examples": [{"prompt": "A bus is", "max_tokens": 16}]}
    )

    prompt: (
        _Text
        | Annotated[list[_Text], Field(min_length=1, max_length=MOST_PROMPTS, fail_fast=True)]
        | _TokenIds
        | Annotated[list[_TokenIds], Field(min_length=1, max_length=MOST_PROMPTS, fail_fast=True)]
    )
    logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    response_format: ResponseFormat | None = None

    @property
    def prompts(self) -> Sequence[str | list[int]]:
        """Each prompt by itself."""
        prompt: Any = self.prompt
        several: bool = isinstance(prompt, list) and not isinstance(prompt[0], int)
        return prompt if several else [prompt]

    def fields(self) -> dict[str, Any]:
        """What a request has under another name. Raises ParameterInvalid where there are several prompts."""
        if len(self.prompts) > 1:
            raise ParameterInvalid("prompt: several are not taken here; give each a line of its own", param="prompt")
        prompt = self.prompts[0]
        fields: dict[str, Any] = {"prompt": prompt}
        if not isinstance(prompt, str):
            fields = {"prompt_token_ids": tuple(prompt)}
        if self.logprobs is not None:
            fields["logprobs"] = self.logprobs
        return fields


_A_PROMPT: Final = (
    f"prompt: give a text, the token ids of one, or a list of 1 to {MOST_PROMPTS} of either; none is empty"
)

_BODIES: Final[dict[str, type[ChatBody | CompletionBody]]] = {
    "/v1/chat/completions": ChatBody,
    "/v1/completions": CompletionBody,
}


def read_body(endpoint: str, body: bytes | str | Mapping[str, Any]) -> ChatBody | CompletionBody:
    """Parse the JSON of a body, or take one that was parsed. Raises ParameterInvalid, which names the parameter."""
    model = _BODIES.get(endpoint)
    if model is None:
        raise ParameterInvalid(f"the endpoint is none of {', '.join(ENDPOINTS)}", param="url")
    text = _text(body)
    if len(text) > MAX_PAYLOAD_BYTES:
        raise ParameterInvalid(f"the body has {len(text)} bytes; the limit is {MAX_PAYLOAD_BYTES}")
    if crowded(text):
        raise ParameterInvalid(f"the body has more than {MAX_CONTAINERS} lists and objects")
    try:
        read = model.model_validate_json(text)
    except ValidationError as error:
        invalid = ParameterInvalid.of(error)
        if invalid.param == "prompt":
            raise ParameterInvalid(_A_PROMPT, param="prompt") from None
        raise invalid from None
    refuse_the_rest(read)
    return read


def as_request(
    endpoint: str, body: bytes | str | Mapping[str, Any] | ChatBody | CompletionBody, *, id: str, **defaults: Any
) -> Request:
    """The Request that a body asks for. `defaults` are fields of Request for what the body leaves open.

    Raises ParameterInvalid, a RequestInvalid that names the parameter as the body does.
    """
    read = body if isinstance(body, ChatBody | CompletionBody) else read_body(endpoint, body)
    fields = {**defaults, **_alike(read), "id": id}
    names = {"prompt_token_ids": "prompt"}
    if isinstance(read, ChatBody) and read.max_completion_tokens is not None:
        names["max_tokens"] = "max_completion_tokens"
    if (shape := shape_of(read, read.response_format)) is not None:
        name, field, value = shape
        fields[field], names[field] = value, name
    try:
        fields |= read.fields()
        return Request(**fields)
    except ValidationError as error:
        raise ParameterInvalid.of(error, names) from None


def as_requests(endpoint: str, body: ChatBody | CompletionBody, *, id: str, **defaults: Any) -> tuple[Request, ...]:
    """The same for a body that may have several prompts: a request for each, with the ids `<id>-0`, `<id>-1`, ..."""
    prompts = [] if isinstance(body, ChatBody) else body.prompts
    if len(prompts) < 2:
        return (as_request(endpoint, body, id=id, **defaults),)
    return tuple(
        as_request(endpoint, body.model_copy(update={"prompt": prompt}), id=f"{id}-{at}", **defaults)
        for at, prompt in enumerate(prompts)
    )


def _alike(read: ChatBody | CompletionBody) -> dict[str, Any]:
    """What a request takes as it is, and lists as tuples."""
    fields = {name: value for name in SAME if (value := getattr(read, name)) is not None}
    if read.deadline is not None or read.ttl_s is not None:  # goes before a default of the other kind too
        fields |= {"deadline": read.deadline, "ttl_s": read.ttl_s}
    if read.stop:
        fields["stop"] = (read.stop,) if isinstance(read.stop, str) else tuple(read.stop)
    if read.stop_token_ids:
        fields["stop_token_ids"] = tuple(read.stop_token_ids)
    return fields


def _text(body: bytes | str | Mapping[str, Any]) -> bytes:
    if isinstance(body, bytes):
        return body
    if isinstance(body, str):
        return body.encode(errors="surrogatepass")
    try:
        return to_json(body)
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise ParameterInvalid(f"the body cannot be written as JSON: {str(error)[:200]}") from None
