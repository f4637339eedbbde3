"""What the OpenAPI document says of errors."""

from __future__ import annotations

from typing import Any

from ..openai_api import ErrorBody


def _error(description: str) -> dict[str, Any]:
    return {"model": ErrorBody, "description": description}


_RETRY_AFTER = {"Retry-After": {"description": "Seconds until asking again may help", "schema": {"type": "integer"}}}

ERRORS: dict[int | str, dict[str, Any]] = {
    400: _error("The call breaks the contract; `param` names what to change"),
    401: _error("No key, or one that is not known here"),
    404: _error("There is no such thing, or it is not yours"),
    413: _error("The body is too large"),
    429: {**_error("Too many calls, or the queue is full"), "headers": _RETRY_AFTER},
    500: _error("The gateway or the engine broke"),
    503: {**_error("Redis cannot be reached, or the gateway stops"), "headers": _RETRY_AFTER},
    "default": _error("Any other error"),
}
"""Of every endpoint that needs a key."""

WAITING_ERRORS: dict[int | str, dict[str, Any]] = {
    **ERRORS,
    410: _error("The result of this Idempotency-Key has expired; call again with another"),
    499: _error("The request was cancelled"),
    504: _error("No result in time, or past the deadline that the body sets"),
}
"""Of the endpoints that wait for a result."""
