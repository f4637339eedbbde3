"""A Celery task that is told of the result of a request which did not come through Celery."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from busload_shared.errors import RequestInvalid
from busload_shared.request import Request

from ..client import Client
from ..encoding import as_request, checked_id
from ..sending import Submission
from .door import Door
from .messages import keep_callback
from .tickets import ticket_of


def call_back(door: Door, app: Any, request_id: str, signature: Any) -> None:
    """See `busload.celery_app.call_back`."""
    ticket, message, settings = ticket_of(checked_id(request_id)), keep_callback(app, signature), door.settings
    if ticket.name != request_id:
        raise RequestInvalid(f"{request_id}: this is a task's own request: give the task a link instead")
    door.do(
        lambda line: line.parking.park(
            ticket, message, look_ms=settings.look_s * 1000, ttl_s=settings.park_ttl_s, tell=True
        )
    )


def submit_with_callback(
    door: Door, app: Any, client: Client, request: Request | Mapping[str, Any], on_result: Any
) -> Submission:
    """See `busload.celery_app.submit_with_callback`."""
    whole = as_request(request, {})
    call_back(door, app, whole.id, on_result)  # first: a crash between them must not lose the callback
    return client.submit(whole)
