"""Who may open the operations page: the keys file's operators, and whoever has the key of the settings."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import Final

from ..gateway.keys import KeyRing

SETTINGS_NAME: Final = "operator"
"""What the bearer of the settings' key is called in the log."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One who may. `sha256` is that of the secret, which is kept nowhere."""

    name: str
    sha256: str


class Operators:
    """Those there are now: the keys file may change at any time."""

    def __init__(self, keys: KeyRing, ops_key: str) -> None:
        """`ops_key` is empty where the settings have none."""
        self._keys = keys
        self._own = (Operator(SETTINGS_NAME, _hash(ops_key)),) if ops_key else ()

    def all(self) -> tuple[Operator, ...]:
        """None: nobody can open the page, and it is off."""
        return (*self._own, *(Operator(key.name, key.sha256) for key in self._keys.keys if key.operator))

    def by_secret(self, secret: str) -> Operator | None:
        """Who has this secret. All are compared, in a time that tells nothing of them."""
        given, found = _hash(secret), None
        for one in self.all():
            if hmac.compare_digest(one.sha256, given):
                found = one
        return found


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.strip().encode("utf-8", "surrogatepass")).hexdigest()
