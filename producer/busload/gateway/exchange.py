"""One HTTP call in plain ASGI: its headers, its body, its answer, and whether the caller is still there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from pydantic import BaseModel

from ..openai_api import Refusal
from .access_log import Notes
from .refused import CallerGone, too_large

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

_JSON = (b"content-type", b"application/json")
_EVENTS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


class Exchange:
    """Answers once: with `answer`, or with `open_events`, any number of `event` and `end`. Once the notes have the
    request's id, each answer tells it, for `busload result` and support."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, notes: Notes) -> None:
        self.path: str = scope["path"]
        self.notes = notes
        self._headers: list[tuple[bytes, bytes]] = scope["headers"]
        self._receive = receive
        self._send = send

    def header(self, name: bytes) -> str | None:
        """A header's value; `name` in lower case."""
        for key, value in self._headers:
            if key == name:
                return value.decode("latin-1")
        return None

    async def body(self, limit: int) -> bytes:
        """The whole body. Raises Refused with 413 when it is larger than `limit` bytes, and CallerGone."""
        told = self.header(b"content-length")
        if told is not None and told.isdigit() and int(told) > limit:
            raise too_large(limit)
        message = await self._receive()
        if message["type"] == "http.request" and not message.get("more_body"):
            parts = [message.get("body", b"")]
        else:
            parts = await self._parts(message, limit)
        body = b"".join(parts)
        if len(body) > limit:
            raise too_large(limit)
        return body

    async def gone(self) -> None:
        """Return when the caller has closed the connection. Only after `body`."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def answer(self, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
        """The whole answer, JSON."""
        head: Headers = [_JSON, (b"content-length", str(len(body)).encode()), *self._id(), *headers]
        await self._send({"type": "http.response.start", "status": status, "headers": head})
        await self._send({"type": "http.response.body", "body": body})

    async def refuse(self, refusal: Refusal) -> None:
        """An answer that is an error."""
        self.notes.code = refusal.detail.code
        headers: Headers = []
        if refusal.retry_after_s is not None:
            headers.append((b"retry-after", str(refusal.retry_after_s).encode()))
        if refusal.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        await self.answer(refusal.status, json_of(refusal.body), *headers)

    async def open_events(self) -> None:
        """Begin an answer of server-sent events."""
        await self._send({"type": "http.response.start", "status": 200, "headers": [*_EVENTS, *self._id()]})

    async def event(self, data: bytes) -> None:
        """One event; `data` has no line breaks."""
        await self._send({"type": "http.response.body", "body": b"data: " + data + b"\n\n", "more_body": True})

    async def comment(self, text: bytes) -> None:
        """A line that clients skip: it keeps the connection alive."""
        await self._send({"type": "http.response.body", "body": b": " + text + b"\n\n", "more_body": True})

    async def end(self) -> None:
        """The last of the events."""
        await self._send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})

    def _id(self) -> Headers:
        name = self.notes.request_id
        return [] if name is None else [(b"x-request-id", name.encode("utf-8", "replace"))]

    async def _parts(self, message: Message, limit: int) -> list[bytes]:
        parts: list[bytes] = []
        size = 0
        while True:
            if message["type"] == "http.disconnect":
                raise CallerGone("the caller left before its body was there")
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > limit:
                raise too_large(limit)
            if not message.get("more_body"):
                return parts
            message = await self._receive()


def json_of(model: BaseModel) -> bytes:
    """The model as JSON."""
    return model.__pydantic_serializer__.to_json(model)
