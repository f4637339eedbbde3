"""The JSON Schemas of the messages, for producers and readers in other languages."""

from __future__ import annotations

import json
from typing import Any, Literal

from .request import Request
from .result import Result


def json_schema(message: Literal["request", "result"]) -> str:
    """The schema's text: JSON Schema 2020-12, with the rules over several fields as far as it can say them."""
    body: dict[str, Any] = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    if message == "request":
        body |= Request.model_json_schema() | {"allOf": _request_rules()}
    else:
        body |= Result.model_json_schema()
    return json.dumps(body, indent=2, ensure_ascii=False) + "\n"


def _request_rules() -> list[dict[str, Any]]:
    """What the models check over several fields."""
    prompts = {"prompt": "string", "prompt_token_ids": "array", "messages": "array"}
    times = {"deadline": "number", "ttl_s": "number"}
    shapes = {"json_schema": "object", "regex": "string", "choice": "array", "grammar": "string"}
    pairs = [(a, b) for a in shapes for b in shapes if a < b]
    return [
        {"oneOf": [_given(name, kinds=prompts) for name in prompts]},
        {"not": _given(*times, kinds=times)},
        {"not": {"anyOf": [_given(*pair, kinds=shapes) for pair in pairs]}},
    ]


def _given(*names: str, kinds: dict[str, str]) -> dict[str, Any]:
    """All of these fields are there and not null."""
    return {"required": list(names), "properties": {name: {"type": kinds[name]} for name in names}}
