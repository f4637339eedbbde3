"""A producer's spans, for programs that trace with OpenTelemetry; in others nothing of this runs or is loaded.

The span's context travels in the request's `trace`, so that the worker's spans hang under it.
"""

from __future__ import annotations

import sys
from asyncio import Future
from collections.abc import Awaitable, Callable
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeVar

from busload_shared.replies import SubmitState
from busload_shared.request import Request
from busload_shared.result import Result
from busload_shared.trace_context import TraceContext

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

T = TypeVar("T")

NOWHERE = TraceContext(traceparent=f"00-{'0' * 32}-{'0' * 16}-00")
"""What a request carries whose span has no context: W3C has its readers ignore it."""

_LONGEST_STATE = 512


def producer_tracing(queue: str) -> ProducerTracing | None:
    """Tracing, if this program has set up a tracer provider by now; else None, and a client never asks again."""
    if "opentelemetry.trace" not in sys.modules:  # who has set up a provider has imported it
        return None
    from opentelemetry import trace

    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return None
    return ProducerTracing(provider.get_tracer("busload", version("busload")), queue)


class ProducerTracing:
    """Puts a PRODUCER span around each submit and generate. A request that brings its own `trace` gets none."""

    def __init__(self, tracer: Tracer, queue: str) -> None:
        self._tracer = tracer
        self._queue = queue

    async def around(self, name: str, request: Request, then: Callable[[Request], Awaitable[T]]) -> T:
        """Await `then` with the request in its span. An error of it is noted in the span, and raised."""
        from opentelemetry.trace import SpanKind

        about = self._about(name, request)
        with self._tracer.start_as_current_span(name, kind=SpanKind.PRODUCER, attributes=about) as span:
            outcome = await then(_carrying(request, span))
            if isinstance(outcome, Result):
                _note(span, outcome)
            return outcome

    def along(
        self, name: str, request: Request, then: Callable[[Request], tuple[str, Future[SubmitState]]]
    ) -> tuple[str, Future[SubmitState]]:
        """Call `then` with the request in a span that ends when the future is done."""
        from opentelemetry.trace import SpanKind

        span = self._tracer.start_span(name, kind=SpanKind.PRODUCER, attributes=self._about(name, request))
        try:
            request_id, future = then(_carrying(request, span))
        except BaseException:
            span.end()
            raise
        future.add_done_callback(partial(_end, span))
        return request_id, future

    def _about(self, name: str, request: Request) -> dict[str, Any]:
        """Attributes by the semantic conventions. Never the text of a prompt."""
        return {
            "messaging.system": "busload",
            "messaging.operation.type": "send",
            "messaging.operation.name": name.removeprefix("busload "),
            "messaging.destination.name": self._queue,
            "messaging.message.id": request.id,
            "gen_ai.operation.name": "chat" if request.messages is not None else "text_completion",
            "gen_ai.request.max_tokens": request.max_tokens,
            "gen_ai.request.temperature": request.temperature,
        }


def _carrying(request: Request, span: Span) -> Request:
    from opentelemetry.trace import set_span_in_context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier, set_span_in_context(span))
    trace = NOWHERE
    if "traceparent" in carrier:
        state = carrier.get("tracestate") or None
        fits = state is None or len(state) <= _LONGEST_STATE
        trace = TraceContext(traceparent=carrier["traceparent"], tracestate=state if fits else None)
    return request.model_copy(update={"trace": trace})


def _note(span: Span, result: Result) -> None:
    from opentelemetry.trace import Status, StatusCode

    span.set_attribute("busload.status", result.status)
    if result.batch is not None:
        span.set_attribute("busload.batch.id", result.batch.id)
    if result.usage is not None:
        span.set_attribute("gen_ai.usage.input_tokens", result.usage.prompt_tokens)
        span.set_attribute("gen_ai.usage.output_tokens", result.usage.completion_tokens)
    if result.error is not None:
        span.set_attribute("error.type", result.error.code)
        span.set_status(Status(StatusCode.ERROR, result.error.code))


def _end(span: Span, future: Future[SubmitState]) -> None:
    from opentelemetry.trace import Status, StatusCode

    error = None if future.cancelled() else future.exception()
    if error is not None:
        span.record_exception(error)
        span.set_status(Status(StatusCode.ERROR, type(error).__name__))
    span.end()
