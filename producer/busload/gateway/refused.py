"""The one way by which the gateway's own parts refuse a call."""

from __future__ import annotations

from busload_shared.errors import BusloadError

from ..openai_api import Refusal, as_refusal, refusal


class Refused(BusloadError):
    """The call is answered with this refusal."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.detail.message)
        self.refusal = refusal


class CallerGone(BusloadError):
    """The caller has closed the connection: there is nobody to answer."""


def refusal_of(error: BusloadError) -> Refusal:
    """The answer to any error of ours."""
    return error.refusal if isinstance(error, Refused) else as_refusal(error)


def not_found(what: str, param: str | None = None) -> Refused:
    """404, as OpenAI has it."""
    return Refused(refusal(404, what, type="invalid_request_error", code="not_found", param=param))


def too_large(limit: int) -> Refused:
    """413, for a body or a file."""
    message = f"the body is larger than {limit} bytes, which is the most that is taken; send less"
    return Refused(refusal(413, message, type="invalid_request_error", code="body_too_large"))
