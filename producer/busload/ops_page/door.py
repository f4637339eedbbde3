"""The way in: by a key in a header, or by the cookie that signing in sets."""

from __future__ import annotations

import math
import secrets
import time
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from busload_shared.errors import BusloadError

from ..gateway.keys import KeyRing
from ..gateway.refused import Refused, not_found
from ..gateway.settings import GatewaySettings
from ..openai_api import ErrorDetail, Refusal, refusal
from .operators import Operator, Operators
from .sessions import COOKIE, Sessions
from .tries import Tries

HOME: Final = "/ops"
_OFF = (
    "the operations page is off: give the gateway BUSLOAD_GATEWAY_OPS_KEY, or a key with operator = true "
    "(busload-gateway new-key --operator NAME)"
)


class SignInNeeded(BusloadError):
    """Whoever asks must sign in first, or again."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who is in. `token` is that of the browser's session, None for a program that sends its key each time."""

    operator: Operator
    token: str | None


class Door:
    """Lets operators in, and nobody else."""

    def __init__(self, settings: GatewaySettings, keys: KeyRing) -> None:
        self.operators: Operators = Operators(keys, settings.ops_key.get_secret_value())
        secret = settings.ops_session_secret.get_secret_value().encode() or secrets.token_bytes(32)
        self.sessions: Sessions = Sessions(secret, lasts_s=settings.ops_session_s)
        self._tries = Tries()

    def check_open(self) -> None:
        """Raise Refused with 404 while there is no operator."""
        if not self.operators.all():
            raise not_found(_OFF)

    def visitor(self, request: Request) -> Visitor:
        """Who asks. Raises Refused for a wrong key and SignInNeeded for none."""
        self.check_open()
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return Visitor(self.holder_of(key, request), None)
        token = request.cookies.get(COOKIE, "")
        operator = self.sessions.holder(token, self.operators.all(), time.time())
        if operator is None:
            raise SignInNeeded("sign in with an operator's key")
        return Visitor(operator, token)

    def holder_of(self, key: str, request: Request) -> Operator:
        """Whose key it is. Raises Refused with 401 for a wrong one, and with 429 after too many of them."""
        address = request.client.host if request.client else ""
        if wait_s := self._tries.wait_s(address):
            message = "too many wrong keys came from this address; try again later"
            detail = ErrorDetail(message=message, type="rate_limit_error", code="rate_limit_exceeded")
            raise Refused(Refusal(429, detail, math.ceil(wait_s)))
        operator = self.operators.by_secret(key)
        if operator is None:
            self._tries.failed(address)
            message = "this is no operator's key: ask operations for one"
            raise Refused(refusal(401, message, type="authentication_error", code="invalid_api_key"))
        return operator

    def signed_in(self, operator: Operator, request: Request) -> Response:
        """To the page, with a cookie that scripts cannot read and that no other site's page can send."""
        answer = RedirectResponse(HOME, 303)
        answer.set_cookie(
            COOKIE,
            self.sessions.open(operator, time.time()),
            max_age=self.sessions.lasts_s,
            path=HOME,
            httponly=True,
            samesite="strict",
            secure=_is_https(request),
        )
        return answer

    def signed_out(self) -> Response:
        """To the form, without the cookie."""
        answer = RedirectResponse(f"{HOME}/login", 303)
        answer.delete_cookie(COOKIE, path=HOME, httponly=True, samesite="strict")
        return answer


def _is_https(request: Request) -> bool:
    """A proxy in front says so. Who lies about it only harms his own cookie."""
    return "https" in (request.url.scheme, request.headers.get("x-forwarded-proto", "").split(",")[0].strip())
