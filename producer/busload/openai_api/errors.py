"""From an error, or a result that failed, to the status and body of an HTTP answer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Final

from pydantic import BaseModel, ConfigDict

from busload_shared.errors import (
    BusloadError,
    BusloadUnavailable,
    DeadlineUnmeetable,
    QueueFull,
    RequestInvalid,
    RequestUnknown,
    ResultExpired,
    ResultTimeout,
)
from busload_shared.result import ErrorCode, Result

from .invalid import ParameterInvalid

LONGEST_RETRY_AFTER_S = 600
_UNKNOWN_WAIT_S = 5


class ErrorDetail(BaseModel):
    """What went wrong: `type` and `code` for programs, `message` for people; `param` is the parameter to change."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True)

    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorBody(BaseModel):
    """The body of every answer that is an error."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True)

    error: ErrorDetail


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer that is an error. `retry_after_s`: when to ask again, None where it does not help or nobody knows."""

    status: int
    detail: ErrorDetail
    retry_after_s: int | None = None

    @property
    def body(self) -> ErrorBody:
        """As it goes out."""
        return ErrorBody(error=self.detail)


_BY_CODE: Final[dict[ErrorCode, tuple[int, str]]] = {
    "invalid_request": (400, "invalid_request_error"),
    "prompt_too_long": (400, "invalid_request_error"),
    "too_heavy": (400, "invalid_request_error"),
    "poison": (500, "server_error"),
    "engine_error": (500, "server_error"),
    "cancelled": (499, "cancelled"),
    "expired": (504, "timeout_error"),
}

_OPENAI_CODES: Final[dict[str, str]] = {"prompt_too_long": "context_length_exceeded"}
"""Where OpenAI's clients know a code of their own."""


def refusal(status: int, message: str, *, type: str, code: str | None = None, param: str | None = None) -> Refusal:
    """An error answer in short."""
    return Refusal(status, ErrorDetail(message=message, type=type, code=code, param=param))


def as_refusal(error: BusloadError) -> Refusal:
    """The HTTP answer to an error of Busload."""
    if isinstance(error, ParameterInvalid):
        return refusal(400, str(error), type="invalid_request_error", code=error.code, param=error.param)
    if isinstance(error, RequestInvalid):
        return refusal(400, str(error), type="invalid_request_error", code="invalid_value")
    if isinstance(error, QueueFull):
        return Refusal(
            429,
            ErrorDetail(message=str(error), type="rate_limit_error", code="queue_full"),
            retry_after(error.expected_wait_s),
        )
    if isinstance(error, DeadlineUnmeetable) and error.left_s <= 0:  # no retry will help
        return refusal(400, str(error), type="invalid_request_error", code="deadline_passed", param="deadline")
    if isinstance(error, DeadlineUnmeetable):
        return Refusal(
            429,
            ErrorDetail(message=str(error), type="rate_limit_error", code="deadline_unmeetable"),
            retry_after(error.needed_s - error.left_s),
        )
    return _of_the_result(error)


def _of_the_result(error: BusloadError) -> Refusal:
    if isinstance(error, ResultTimeout):
        return refusal(504, str(error), type="timeout_error", code="timeout")
    if isinstance(error, BusloadUnavailable):
        detail = ErrorDetail(message=str(error), type="server_error", code="unavailable")
        return Refusal(503, detail, _UNKNOWN_WAIT_S)
    if isinstance(error, RequestUnknown):
        return refusal(404, str(error), type="invalid_request_error", code="request_unknown")
    if isinstance(error, ResultExpired):
        return refusal(410, str(error), type="invalid_request_error", code="result_expired")
    return refusal(500, str(error), type="server_error", code="internal_error")


def failed(result: Result) -> Refusal | None:
    """The HTTP answer to a result that is no success; None for one that is."""
    if result.status == "succeeded":
        return None
    if result.error is None:
        return refusal(500, f"the request ended as {result.status}", type="server_error", code="engine_error")
    status, kind = _BY_CODE.get(result.error.code, (500, "server_error"))
    code = _OPENAI_CODES.get(result.error.code, result.error.code)
    return refusal(status, result.error.message, type=kind, code=code)


def retry_after(wait_s: float | None) -> int:
    """Whole seconds from 1 to 600, for the header Retry-After; 5 while nobody knows."""
    if wait_s is None or not math.isfinite(wait_s):
        return _UNKNOWN_WAIT_S
    return max(1, min(LONGEST_RETRY_AFTER_S, math.ceil(wait_s)))
