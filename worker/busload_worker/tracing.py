"""A batch's spans, made after its end from what its passengers' traces and results tell.

The batch is one CONSUMER span with a link to each passenger that rode. Each passenger has `busload wait`, `busload run`
and `busload delivery` under the span it was sent from. Spans are timed by the Redis clock, as results are, moved by
what this machine's clock differs from it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from busload_shared.replies import Delivery
from busload_shared.result import Result, ResultError, Timing
from busload_shared.trace_context import TraceContext

from .admission import Admission
from .answers import Ride

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

SPANS_A_TURN = 64
"""Spans made before others have their turn: making one takes some 30 µs."""


@dataclass(slots=True)
class Passenger:
    """One row whose request brought a trace. Times are Unix ms on the Redis clock."""

    context: Context
    rode: bool
    result: Result | None = None
    delivered_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class WorkerTracing:
    """What the spans of all batches share."""

    tracer: Tracer
    queue: str
    max_batch_size: int
    engine: str = ""
    model: str = ""

    def board(self, ride: Ride, admission: Admission) -> BatchTrace | None:
        """Gather a batch's spans; None when no producer records a trace that is in it."""
        trace = BatchTrace(self, ride)
        for position, (_, request) in admission.seats.items():
            trace.takes(position, request.trace)
        for answer in admission.answers:
            result = Result.model_validate_json(answer.result)
            trace.takes(answer.position, result.trace, answered=result)
        return trace if trace.wanted else None


@dataclass(slots=True)
class BatchTrace:
    """One batch, from its claim to its last answer. `died` is why it ended early."""

    shared: WorkerTracing
    ride: Ride
    wanted: bool = False
    died: str | None = None
    passengers: dict[int, Passenger] = field(default_factory=dict)

    def takes(self, position: int, trace: TraceContext | None, *, answered: Result | None = None) -> None:
        """A row, if it has a trace; `answered` when it does not ride."""
        if trace is not None and (context := _context(trace)) is not None:
            self.passengers[position] = Passenger(context, rode=answered is None, result=answered)
            self.wanted = self.wanted or trace.is_sampled

    def answered(self, position: int, result: Result) -> None:
        """A row has its result."""
        if (passenger := self.passengers.get(position)) is not None:
            passenger.result = result

    def delivered(self, chunk: Sequence[Delivery], written: Sequence[bool]) -> None:
        """Redis has these results now."""
        now_ms = self.ride.claim.clock_ms()
        for answer, taken in zip(chunk, written, strict=True):
            if taken and (passenger := self.passengers.get(answer.position)) is not None:
                passenger.delivered_ms = now_ms

    async def end(self) -> None:
        """Make the spans; exporting them is the tracer provider's."""
        offset_ms = time.time() * 1000 - self.ride.claim.clock_ms()
        batch = self._batch_span(offset_ms)
        for number, passenger in enumerate(self.passengers.values()):
            if passenger.result is not None:
                self._passenger_spans(passenger, passenger.result, batch, offset_ms)
            if number % SPANS_A_TURN == SPANS_A_TURN - 1:
                await asyncio.sleep(0)

    def _batch_span(self, offset_ms: float) -> Span | None:
        from opentelemetry.trace import Link, SpanKind, Status, StatusCode, get_current_span

        parents = [passenger.context for passenger in self.passengers.values() if passenger.rode]
        if not parents:
            return None
        links = [Link(get_current_span(parent).get_span_context()) for parent in parents]
        one_trace = len({link.context.trace_id for link in links}) == 1
        span = self.shared.tracer.start_span(
            "busload batch",
            context=parents[0] if one_trace else _root(),
            kind=SpanKind.CONSUMER,
            links=links,
            attributes=self._about_batch(),
            start_time=_ns(self.ride.claim.claimed_ms + offset_ms),
        )
        if self.ride.started_ms:
            span.add_event("the run begins", timestamp=_ns(self.ride.started_ms + offset_ms))
        if self.died is not None:
            span.set_status(Status(StatusCode.ERROR, self.died[:300]))
        last_ms = max((passenger.delivered_ms for passenger in self.passengers.values()), default=0.0)
        span.end(_ns((last_ms if last_ms and self.died is None else self.ride.claim.clock_ms()) + offset_ms))
        return span

    def _about_batch(self) -> dict[str, Any]:
        ride, claim = self.ride, self.ride.claim
        return {
            "messaging.system": "busload",
            "messaging.operation.type": "process",
            "messaging.operation.name": "batch",
            "messaging.destination.name": self.shared.queue,
            "messaging.batch.message_count": ride.size,
            "busload.batch.id": claim.batch,
            "busload.batch.trigger": claim.trigger,
            "busload.batch.fill": ride.size / self.shared.max_batch_size,
            "busload.batch.tokens": ride.tokens,
            "busload.batch.left_waiting": claim.depth,
            "busload.worker": ride.worker,
        }

    def _passenger_spans(self, passenger: Passenger, result: Result, batch: Span | None, offset_ms: float) -> None:
        from opentelemetry.trace import Link

        timing = result.timing
        if timing is None:
            return
        boarded_ms = timing.claimed_ms or timing.finished_ms
        links = [Link(batch.get_span_context())] if batch is not None and passenger.rode else []

        def add(
            name: str, start_ms: float, end_ms: float, attributes: dict[str, Any], error: ResultError | None
        ) -> None:
            span = self.shared.tracer.start_span(
                name,
                context=passenger.context,
                links=links,
                attributes={"messaging.message.id": result.id, **attributes},
                start_time=_ns(start_ms + offset_ms),
            )
            if error is not None:
                _fail(span, error)
            span.end(_ns(max(start_ms, end_ms) + offset_ms))

        ran = passenger.rode and self.ride.started_ms > 0
        add("busload wait", timing.enqueued_ms, boarded_ms, _about_wait(result), None if ran else result.error)
        if ran:
            start_ms = timing.started_ms or self.ride.started_ms
            add("busload run", start_ms, timing.finished_ms, self._about_run(result, timing), result.error)
        if passenger.delivered_ms:
            add(
                "busload delivery",
                timing.finished_ms,
                passenger.delivered_ms,
                {"busload.held_ms": timing.held_ms},
                None,
            )

    def _about_run(self, result: Result, timing: Timing) -> dict[str, Any]:
        about: dict[str, Any] = {
            "gen_ai.provider.name": self.shared.engine,
            "gen_ai.request.model": self.shared.model,
            "gen_ai.response.finish_reasons": [output.finish_reason for output in result.outputs],
            "busload.status": result.status,
            "busload.waited_ms": timing.waited_ms,
            "busload.attempts": result.attempts,
        }
        if result.usage is not None:
            about["gen_ai.usage.input_tokens"] = result.usage.prompt_tokens
            about["gen_ai.usage.output_tokens"] = result.usage.completion_tokens
        if result.batch is not None:
            about |= {"busload.batch.id": result.batch.id, "busload.batch.position": result.batch.position}
        return about


def _about_wait(result: Result) -> dict[str, Any]:
    return {"busload.batch.trigger": result.batch.trigger} if result.batch else {}


def _fail(span: Span, error: ResultError) -> None:
    from opentelemetry.trace import Status, StatusCode

    span.set_attribute("error.type", error.code)
    span.set_status(Status(StatusCode.ERROR, error.code))


def _context(trace: TraceContext) -> Context | None:
    """The span that a request was sent from; None for what is no valid trace context."""
    from opentelemetry.trace import get_current_span
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier = {"traceparent": trace.traceparent, "tracestate": trace.tracestate or ""}
    context = TraceContextTextMapPropagator().extract(carrier, _root())
    return context if get_current_span(context).get_span_context().is_valid else None


def _root() -> Context:
    from opentelemetry.context import Context

    return Context()


def _ns(ms: float) -> int:
    return int(ms * 1e6)
