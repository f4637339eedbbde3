"""Structured output: every way OpenAI's and vLLM's callers ask for it, as a request has it."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from busload_shared.request import JsonObject, Message

from .invalid import ParameterInvalid
from .parameters import Parameters, Shape

_OBJECT = TypeAdapter(JsonObject)

Given = tuple[str, Shape, Any]
"""The parameter it came by, the request's field, and its value."""


class NamedSchema(Message):
    """A JSON schema with its name; `strict` changes nothing, the output always follows it."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore", populate_by_name=True)

    name: str | None = None
    schema_: Annotated[JsonObject, Field(alias="schema")]


class ResponseFormat(Message):
    """`text`, any JSON object, or JSON of a given schema."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: NamedSchema | None = None

    def shape(self) -> Given | None:
        """What the output is forced into. Raises ParameterInvalid."""
        if self.type == "text":
            return None
        if self.type == "json_object":
            return "response_format", "json_schema", {"type": "object"}
        if self.json_schema is None:
            raise ParameterInvalid("response_format.json_schema: Field required", param="response_format")
        return "response_format", "json_schema", self.json_schema.schema_


def shape_of(body: Parameters, response_format: ResponseFormat | None) -> Given | None:
    """The one shape that is asked for, None for free text. Raises ParameterInvalid for two of them."""
    given = _guided(body) if response_format is None else [response_format.shape(), *_guided(body)]
    shapes = [one for one in given if one is not None and one[2] is not None]
    if not shapes:
        return None
    if len(shapes) > 1:
        names = " and ".join(dict.fromkeys(name for name, _, _ in shapes))
        raise ParameterInvalid(f"{names}: ask for one shape of the output only", param=shapes[1][0])
    name, field, value = shapes[0]
    if field == "json_schema" and isinstance(value, str):
        value = _schema_of_text(value, name)
    return name, field, tuple(value) if field == "choice" else value


def _guided(body: Parameters) -> list[Given | None]:
    given: list[Given | None] = [
        ("guided_json", "json_schema", body.guided_json),
        ("guided_regex", "regex", body.guided_regex),
        ("guided_choice", "choice", body.guided_choice),
        ("guided_grammar", "grammar", body.guided_grammar),
    ]
    if (one := body.structured_outputs) is not None:
        given += [
            ("structured_outputs", "json_schema", one.json_),
            ("structured_outputs", "regex", one.regex),
            ("structured_outputs", "choice", one.choice),
            ("structured_outputs", "grammar", one.grammar),
        ]
    return given


def _schema_of_text(text: str, name: str) -> dict[str, JsonValue]:
    try:
        return _OBJECT.validate_json(text)
    except ValidationError:
        raise ParameterInvalid(f"{name}: not a JSON schema", param=name) from None
