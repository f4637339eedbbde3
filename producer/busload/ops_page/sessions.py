"""A browser that is signed in: a signed token in its cookie. Nothing is kept here, and the clock is the caller's."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterable
from typing import Final

from .operators import Operator

COOKIE: Final = "busload_ops"


class Sessions:
    """Signs with `secret`, and with what is known of the operator's key: a key that is changed or taken away ends its
    sessions. Times are Unix seconds."""

    def __init__(self, secret: bytes, *, lasts_s: int) -> None:
        self._secret = secret
        self.lasts_s: int = lasts_s

    def open(self, operator: Operator, now_s: float) -> str:
        """The token of a new session: `name.expiry.random.signature`."""
        claim = f"{operator.name}.{int(now_s) + self.lasts_s}.{secrets.token_hex(8)}"
        return f"{claim}.{self._sign('session', claim, operator.sha256)}"

    def holder(self, token: str, operators: Iterable[Operator], now_s: float) -> Operator | None:
        """Whose session it is; None for one that is over, or was not opened here."""
        claim, _, signature = token.rpartition(".")
        name, _, rest = claim.partition(".")
        expiry = rest.partition(".")[0]
        if not (expiry.isascii() and expiry.isdigit() and len(expiry) < 16) or int(expiry) <= now_s:
            return None
        for one in operators:
            right = self._sign("session", claim, one.sha256)
            if one.name == name and hmac.compare_digest(right.encode(), signature.encode("utf-8", "replace")):
                return one
        return None

    def form_token(self, token: str) -> str:
        """What a form of this session carries: another site's page cannot know it."""
        return self._sign("form", token, "")

    def is_own_form(self, token: str, given: str) -> bool:
        """Whether a form with this token came from a page of this session."""
        return hmac.compare_digest(self.form_token(token).encode(), given.encode("utf-8", "replace"))

    def _sign(self, purpose: str, text: str, salt: str) -> str:
        return hmac.digest(self._secret, f"{purpose}\n{salt}\n{text}".encode("utf-8", "replace"), "sha256").hex()
