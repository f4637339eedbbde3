"""From what a caller gives to the bytes that go on the queue."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from os import urandom
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from busload_shared.errors import RequestInvalid
from busload_shared.request import MAX_PAYLOAD_BYTES, Request, RequestId, parse_request, reason
from busload_shared.terms import Terms


class Outgoing(NamedTuple):
    """A request on its way to the queue; `terms` where it has a priority or a deadline."""

    id: str
    payload: bytes
    terms: Terms | None = None


_ID: Final = TypeAdapter(RequestId)
_made: Final[Callable[[dict[str, Any]], Request]] = Request.__pydantic_validator__.validate_python
_to_json: Final = Request.__pydantic_serializer__.to_json


def as_request(request: Request | Mapping[str, Any] | None, fields: dict[str, Any]) -> Request:
    """The request itself, or one made of `fields`, which is the caller's to give away.

    A missing id becomes 128 random bits in hex: as unlikely to clash as a UUID, at a quarter of its cost.
    Raises RequestInvalid.
    """
    if isinstance(request, Request):
        if fields:
            raise RequestInvalid("give a Request or fields, not both")
        return request
    if request is not None and not isinstance(request, Mapping):
        raise RequestInvalid(f"give a Request or its fields, not {type(request).__name__}")
    given = {**request, **fields} if request else fields
    if given.get("id") is None:
        given["id"] = urandom(16).hex()
    try:
        return _made(given)
    except ValidationError as error:
        return _as_json_would_be(given, error)


def _as_json_would_be(given: dict[str, Any], refused: ValidationError) -> Request:
    """Lists and dicts are fine where JSON has them, though the strict model wants tuples and models."""
    try:
        text = json.dumps(given, default=_plain, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError):
        raise RequestInvalid(reason(refused)) from None
    try:
        return Request.model_validate_json(text)
    except ValidationError as error:
        raise RequestInvalid(reason(error)) from None


def _plain(value: object) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_defaults=True)
    raise TypeError(f"{type(value).__name__} has no place in JSON")


def encode(request: Request) -> bytes:
    """The request as JSON, without defaults. Raises RequestInvalid for what a worker would refuse to parse."""
    try:
        payload = _to_json(request, exclude_defaults=True)
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise RequestInvalid(f"{request.id}: cannot be written as JSON: {str(error)[:200]}") from None
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise RequestInvalid(
            f"{request.id}: the request is {len(payload)} bytes of JSON; the limit is {MAX_PAYLOAD_BYTES}"
        )
    free_json = request.metadata is not None or request.json_schema is not None
    if free_json and parse_request(payload) != request:
        raise RequestInvalid(f"{request.id}: metadata or json_schema holds text that UTF-8 cannot hold")
    return payload


def outgoing(request: Request) -> Outgoing:
    """The request as it goes on the queue. Raises what `encode` raises."""
    return Outgoing(request.id, encode(request), Terms.of(request))


def checked_id(request_id: str) -> str:
    """The id, if it can be one. Raises RequestInvalid."""
    try:
        return _ID.validate_python(request_id, strict=True)
    except ValidationError as error:
        raise RequestInvalid(f"id: {error.errors()[0]['msg']}") from None
