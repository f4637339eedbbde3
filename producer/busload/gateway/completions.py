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
    as_requests,
    joined,
    read_body,
)
from .access_log import CALLER_GONE
from .desks import Desk, Desks
from .exchange import Exchange, json_of
from .keys import Key, KeyRing
from .limits import check, check_count, defaults_for
from .refused import CallerGone, refusal_of
from .settings import GatewaySettings
from .streaming import Streaming
from .waiting import Passenger

_NOT_IN_IDS = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")


class Completions:
    """Submits the requests of a body and answers with their results."""

    def __init__(self, settings: GatewaySettings, keys: KeyRing, desks: Desks) -> None:
        self._settings = settings
        self._keys = keys
        self._desks = desks

    async def handle(self, exchange: Exchange) -> None:
        """Answer one call, whatever happens."""
        try:
            await self._answer(exchange)
        except CallerGone:
            exchange.notes.status, exchange.notes.code = 499, CALLER_GONE
        except BusloadError as error:
            await exchange.refuse(refusal_of(error))

    async def _answer(self, exchange: Exchange) -> None:
        key = self._keys.caller(exchange.header(b"authorization"))
        exchange.notes.key = key.name
        self._keys.count(key)
        most = self._settings.max_body_bytes
        raw = await exchange.body(min(most, key.max_body_bytes or most))
        body = read_body(exchange.path, raw)
        desk = self._desks.of(key.queue)
        model = await desk.roster.name_for(body.model)
        call_id = request_id(exchange, key)
        requests = self._requests(exchange, body, key, call_id)
        exchange.notes.request_id = call_id
        passenger = self._passenger(exchange, desk, requests)
        if body.stream:
            usage = body.stream_options is not None and bool(body.stream_options.include_usage)
            streaming = Streaming(exchange, passenger, model, id=call_id, include_usage=usage)
            await streaming.run(keep_alive_s=self._settings.keep_alive_s)
            return
        results = await passenger.results_while_there(exchange)
        result = results[0] if len(results) == 1 else joined(results, id=call_id, n=requests[0].n)
        await self._give(exchange, result, model, requests[0].logprobs)

    async def _give(self, exchange: Exchange, result: Result, model: str, top_logprobs: int | None) -> None:
        if result.usage is not None:
            exchange.notes.tokens = result.usage.completion_tokens
        answer = as_answer(exchange.path, result, model=model, created=int(time.time()), top_logprobs=top_logprobs)
        await exchange.answer(200, json_of(answer), *_timed(result))

    def _requests(
        self, exchange: Exchange, body: ChatBody | CompletionBody, key: Key, call_id: str
    ) -> tuple[Request, ...]:
        """One for each prompt; they are alike but for it."""
        if isinstance(body, CompletionBody) and (count := len(body.prompts)) > 1:
            check_count(count, self._settings)
            self._keys.count(key, count, counted=1)
        defaults: dict[str, Any] = {**defaults_for(key, self._settings), "trace": trace_of(exchange)}
        requests = as_requests(exchange.path, body, id=call_id, **defaults)
        check(requests[0], key)
        return requests

    def _passenger(self, exchange: Exchange, desk: Desk, requests: tuple[Request, ...]) -> Passenger:
        keeps = exchange.header(b"idempotency-key") is not None
        return Passenger(desk.client, requests, timeout_s=self._settings.request_timeout_s, keeps=keeps)


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


def _timed(result: Result) -> tuple[tuple[bytes, bytes], ...]:
    timing = result.timing
    if timing is None:
        return ()
    return (
        (b"openai-processing-ms", b"%d" % timing.run_ms),
        (b"busload-waited-ms", b"%d" % timing.waited_ms),
    )
