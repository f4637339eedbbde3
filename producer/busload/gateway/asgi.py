"""The gateway as one ASGI application: the hot path beside everything else, and a log line for each call."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..metrics.gateway_meter import GatewayMeter
from ..openai_api import ENDPOINTS, ErrorDetail, Refusal, refusal
from .access_log import CALLER_GONE, Notes
from .completions import Completions
from .exchange import Exchange
from .keys import KeyRing
from .refused import Refused
from .settings import GatewaySettings

log: Final = logging.getLogger("busload.gateway")

_MULTIPART_BYTES = 65_536
"""What a form adds to the file in it."""

_STOPPING = Refusal(
    503,
    ErrorDetail(
        message="the gateway stops; with the same Idempotency-Key another one gives you the result",
        type="server_error",
        code="stopping",
    ),
    1,
)


class Gateway:
    """`rest` is the FastAPI application, which describes all endpoints and serves those that may take their time."""

    def __init__(
        self, settings: GatewaySettings, keys: KeyRing, completions: Completions, rest: ASGIApp, meter: GatewayMeter
    ) -> None:
        self._settings = settings
        self._keys = keys
        self._completions = completions
        self._rest = rest
        self._meter = meter

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one call, or the lifespan."""
        if scope["type"] != "http":
            await self._rest(scope, receive, send)
            return
        notes, began = Notes(scope["method"], scope["path"]), self._meter.begins()
        scope.setdefault("state", {})["notes"] = notes

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                notes.status = message["status"]
            await send(message)

        try:
            if notes.path in ENDPOINTS and notes.method == "POST":
                await self._completions.handle(Exchange(scope, receive, noted, notes))
            else:
                await self._pass_on(scope, receive, noted, notes)
        except asyncio.CancelledError:
            await self._last_word(Exchange(scope, receive, noted, notes), _STOPPING)
            raise
        except Exception:
            log.exception("a call broke")
            broke = refusal(500, "the gateway broke; its log tells why", type="server_error", code="internal_error")
            await self._last_word(Exchange(scope, receive, noted, notes), broke)
        finally:
            notes.write()
            self._count(notes, began)

    def _count(self, notes: Notes, began: float) -> None:
        """A caller who left was neither answered nor refused, whatever the log line says."""
        left = notes.code == CALLER_GONE
        status, code = (0, None) if left else (notes.status, notes.code)
        self._meter.ended(began, path=notes.path, status=status, code=code, tokens=notes.tokens)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send, notes: Notes) -> None:
        """To FastAPI, which reads a body before it looks at anything: so strangers are refused here."""
        if notes.path.startswith("/v1/"):
            exchange = Exchange(scope, receive, send, notes)
            try:
                key = self._keys.caller(exchange.header(b"authorization"))
                notes.key = key.name
                self._keys.count(key)
            except Refused as error:
                await exchange.refuse(error.refusal)
                return
            scope["state"]["key"] = key
        await self._rest(scope, self._limited(notes.path, receive), send)

    async def _last_word(self, exchange: Exchange, word: Refusal) -> None:
        if not exchange.notes.status:
            await exchange.refuse(word)

    def _limited(self, path: str, receive: Receive) -> Receive:
        """No body is larger than its path allows."""
        chosen = self._settings
        limit = chosen.max_file_bytes + _MULTIPART_BYTES if path == "/v1/files" else chosen.max_body_bytes
        seen = 0

        async def limited() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > limit:
                raise HTTPException(413, f"the body is larger than {limit} bytes, which is the most that is taken")
            return message

        return limited
