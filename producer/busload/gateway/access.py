"""Who calls, for the endpoints that FastAPI serves."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPBearer

from .desks import Desk, Desks
from .keys import Key

_scheme = HTTPBearer(auto_error=False, scheme_name="key", description="A key of the gateway's keys file.")


def _caller(request: Request) -> Key:
    key: Key = request.state.key
    return key


Caller = Annotated[Key, Depends(_caller)]
"""The key of who calls, as Gateway found it."""

BEARER = Depends(_scheme)
"""For the OpenAPI document only."""


def _desk(request: Request, key: Caller) -> Desk:
    desks: Desks = request.app.state.desks
    return desks.of(key.queue)


AtDesk = Annotated[Desk, Depends(_desk)]
"""The desk of the caller's queue."""
