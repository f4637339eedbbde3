"""A task's own message, kept so that it can be published again, and the message of a callback."""

from __future__ import annotations

import base64
from typing import Any, ClassVar, Literal

from celery.canvas import Signature
from kombu import serialization
from pydantic import BaseModel, ConfigDict

from busload_shared.result import Result

from .tickets import callback_id

LANDED_HEADER = "busload_landed"
"""Carries the id of the request whose result wakes this task."""


class Kept(BaseModel):
    """What is kept of a message. `body` is what Celery's serializer made of the signature, in base64."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True)

    kind: Literal["task", "callback"]
    content_type: str
    content_encoding: str
    body: str


def keep_task(task: Any, request_id: str) -> bytes:
    """The message of the running `task`: arguments, callbacks, chord, chain, group, parents, routing, headers.

    Its `expires` and `eta` are left out, for they are about the task's start, and that was in time.
    """
    headers = {**(task.request.headers or {}), LANDED_HEADER: request_id}
    signature = task.signature_from_request(task.request, headers=headers)
    signature.options.pop("expires", None)
    return _keep(task.app, "task", signature)


def keep_callback(app: Any, signature: Any) -> bytes:
    """The message of a callback."""
    return _keep(app, "callback", signature)


def publish(app: Any, message: bytes, result: Result | None) -> None:
    """Publish a kept message; a callback gets the Result, as a dict, before its own arguments.

    Raises kombu's OperationalError while the broker is away.
    """
    kept = Kept.model_validate_json(message)
    body = base64.b64decode(kept.body)
    accept = [*app.conf.accept_content, kept.content_type]
    fields = serialization.loads(body, kept.content_type, kept.content_encoding, accept=accept)
    signature = Signature.from_dict(fields, app=app)
    if kept.kind == "task":
        signature.apply_async()
    elif result is not None:
        signature.apply_async((result.model_dump(mode="json"),), task_id=callback_id(result.id))


def _keep(app: Any, kind: Literal["task", "callback"], signature: Any) -> bytes:
    content_type, encoding, body = serialization.dumps(dict(signature), serializer=app.conf.task_serializer)
    raw = body.encode() if isinstance(body, str) else body
    text = base64.b64encode(raw).decode()
    return Kept(kind=kind, content_type=content_type, content_encoding=encoding, body=text).model_dump_json().encode()
