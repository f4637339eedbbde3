"""POST /v1/chat/completions and /v1/completions: the hot path, in plain ASGI."""

from __future__ import annotations

import re
import time
from os import urandom
from typing import Any

from pydantic import ValidationError

from busload_shared.errors import BusloadError
from busload_shared.request import Request
from busload_shared.result import Result
from busload_shared.trace_context import TraceContext

from ..openai_api import (
    ChatBody,
    CompletionBody,
    as_answer,
    as_refusal,
    as_request,
    failed,
    read_body,
)
from .desks import Desk, Desks
from .exchange import Exchange, json_of
from .keys import Key, KeyRing
from .limits import check, defaults_for
from .refused import CallerGone, Refused
from .settings import GatewaySettings
from .streaming import Streaming
from .waiting import Passenger

_NOT_IN_IDS = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")


class Completions:
    """Submits the request of a body and answers with its result."""

    def __init__(self, settings: GatewaySettings, keys: KeyRing, desks: Desks) -> None:
        self._settings = settings
        self._keys = keys
        self._desks = desks

    async def handle(self, exchange: Exchange) -> None:
        """Answer one call, whatever happens."""
        try:
            await self._answer(exchange)
        except Refused as error:
            await exchange.refuse(error.refusal)
        except CallerGone:
            exchange.notes.status, exchange.notes.code = 499, "caller_gone"
        except BusloadError as error:
            await exchange.refuse(as_refusal(error), *_named(exchange))

    async def _answer(self, exchange: Exchange) -> None:
        key = self._keys.caller(exchange.header(b"authorization"))
        exchange.notes.key = key.name
        self._keys.count(key)
        most = self._settings.max_body_bytes
        raw = await exchange.body(min(most, key.max_body_bytes or most))
        body = read_body(exchange.path, raw)
        desk = self._desks.of(key.queue)
        model = await desk.roster.name_for(body.model)
        request = self._request(exchange, body, key)
        exchange.notes.request_id = request.id
        passenger = self._passenger(exchange, desk, request)
        if body.stream:
            usage = body.stream_options is not None and bool(body.stream_options.include_usage)
            await Streaming(exchange, passenger, model, usage).run(keep_alive_s=self._settings.keep_alive_s)
            return
        result = await passenger.result_while_there(exchange)
        await self._give(exchange, result, model, request.logprobs)

    async def _give(self, exchange: Exchange, result: Result, model: str, top_logprobs: int | None) -> None:
        if (refusal := failed(result)) is not None:
            await exchange.refuse(refusal, *_named(exchange))
            return
        if result.usage is not None:
            exchange.notes.tokens = result.usage.completion_tokens
        answer = as_answer(exchange.path, result, model=model, created=int(time.time()), top_logprobs=top_logprobs)
        await exchange.answer(200, json_of(answer), *_named(exchange), *_timed(result))

    def _request(self, exchange: Exchange, body: ChatBody | CompletionBody, key: Key) -> Request:
        defaults: dict[str, Any] = {**defaults_for(key, self._settings), "trace": trace_of(exchange)}
        request = as_request(exchange.path, body, id=request_id(exchange, key), **defaults)
        check(request, key)
        return request

    def _passenger(self, exchange: Exchange, desk: Desk, request: Request) -> Passenger:
        keeps = exchange.header(b"idempotency-key") is not None
        return Passenger(desk.client, request, timeout_s=self._settings.request_timeout_s, keeps=keeps)


def request_id(exchange: Exchange, key: Key) -> str:
    """The caller's Idempotency-Key, so that a call made twice is one request; else random.

    A key's name comes before, so that no caller reaches another's results. An X-Request-Id begins the id and does
    not stand alone, for callers give one to several calls of one trace.
    """
    owner = "" if key.is_anonymous else f"{key.name}."
    if (given := exchange.header(b"idempotency-key")) is not None:
        return owner + given
    if (given := exchange.header(b"x-request-id")) is not None:
        return f"{owner}{_NOT_IN_IDS.sub('-', given)[:128]}.{urandom(8).hex()}"
    return owner + urandom(16).hex()


def trace_of(exchange: Exchange) -> TraceContext | None:
    """The caller's W3C trace, so that the request's spans hang under his; one that is none is ignored, as W3C says."""
    if (parent := exchange.header(b"traceparent")) is None:
        return None
    try:
        return TraceContext(traceparent=parent, tracestate=exchange.header(b"tracestate"))
    except ValidationError:
        return None


def _named(exchange: Exchange) -> tuple[tuple[bytes, bytes], ...]:
    """The header that tells the request's id, for `busload result` and support."""
    name = exchange.notes.request_id
    return () if name is None else ((b"x-request-id", name.encode("utf-8", "replace")),)


def _timed(result: Result) -> tuple[tuple[bytes, bytes], ...]:
    timing = result.timing
    if timing is None:
        return ()
    return (
        (b"openai-processing-ms", b"%d" % timing.run_ms),
        (b"busload-waited-ms", b"%d" % timing.waited_ms),
    )
