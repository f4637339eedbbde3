"""With OpenTelemetry a request is one trace, from the caller's span to the result, and a batch links its passengers."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased
from opentelemetry.trace import SpanKind, StatusCode
from tests.waiting import wait_until
from tests.worker_process import WorkerProcess

import busload.wiring
from busload import AsyncClient, Client, RequestInvalid
from busload.tracing import ProducerTracing, producer_tracing
from busload_worker.tracing import WorkerTracing

from .conftest import Depot

NEW_TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class Spans:
    """What a producer and a worker, each with a provider of its own, have traced."""

    def __init__(self) -> None:
        self._memory = InMemorySpanExporter()
        self.producer, self.worker = TracerProvider(), TracerProvider()
        for provider in (self.producer, self.worker):
            provider.add_span_processor(SimpleSpanProcessor(self._memory))
        self.tracing = WorkerTracing(self.worker.get_tracer("w"), "busload:default", 4, engine="fake", model="m")

    def all(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._memory.get_finished_spans() if span.name == name]

    async def until(self, name: str, count: int) -> list[ReadableSpan]:
        async def there() -> bool:
            return len(self.all(name)) >= count

        await wait_until(there, what=f"{count} spans {name!r}")
        return self.all(name)


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    """The clients of this test trace, as they do where the program has set a provider."""
    spans = Spans()
    tracer = spans.producer.get_tracer("p")
    monkeypatch.setattr(busload.wiring, "producer_tracing", lambda queue: ProducerTracing(tracer, queue))
    yield spans
    spans.producer.shutdown()
    spans.worker.shutdown()


def traces(found: list[ReadableSpan]) -> set[int]:
    return {span.context.trace_id for span in found}


def parents(found: list[ReadableSpan]) -> set[int]:
    return {span.parent.span_id for span in found if span.parent is not None}


def linked(span: ReadableSpan) -> set[int]:
    return {link.context.span_id for link in span.links}


async def test_one_trace_shows_the_call_the_wait_the_batch_and_the_delivery(depot: Depot, spans: Spans) -> None:
    await depot.start(tracing_to=spans.tracing)
    async with AsyncClient(depot.url) as client:
        with spans.producer.get_tracer("app").start_as_current_span("the caller"):
            result = await client.generate(prompt="Hello", max_tokens=4, timeout_s=20)
    (caller,), (call,) = spans.all("the caller"), spans.all("busload generate")
    (delivery,) = await spans.until("busload delivery", 1)
    (wait,), (run,), (batch,) = (spans.all(f"busload {name}") for name in ("wait", "run", "batch"))
    assert traces([caller, call, wait, run, delivery, batch]) == {caller.context.trace_id}
    assert parents([call]) == {caller.context.span_id}
    assert parents([wait, run, delivery, batch]) == {call.context.span_id}
    assert linked(batch) == {call.context.span_id}
    assert linked(run) == {batch.context.span_id}
    assert (call.kind, batch.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert result.trace is not None
    assert result.trace.traceparent.startswith(f"00-{call.context.trace_id:032x}-{call.context.span_id:016x}-")
    told = dict(run.attributes or {}) | dict(batch.attributes or {}) | dict(call.attributes or {})
    assert told["gen_ai.usage.output_tokens"] == 4
    assert told["busload.batch.trigger"] == "timeout"
    assert told["busload.batch.fill"] == 0.25
    assert "Hello" not in str(told)


async def test_times_follow_each_other(depot: Depot, spans: Spans) -> None:
    await depot.start(tracing_to=spans.tracing)
    async with AsyncClient(depot.url) as client:
        result = await client.generate(prompt="Hello", max_tokens=4, timeout_s=20)
    (delivery,) = await spans.until("busload delivery", 1)
    (wait,), (run,), (batch,) = (spans.all(f"busload {name}") for name in ("wait", "run", "batch"))
    assert wait.start_time <= wait.end_time <= run.start_time <= run.end_time == delivery.start_time
    assert delivery.start_time <= delivery.end_time <= batch.end_time
    assert batch.start_time == wait.end_time
    timing = result.timing
    assert timing is not None
    assert (run.end_time - run.start_time) / 1e6 == pytest.approx(timing.finished_ms - timing.started_ms, abs=0.01)


async def test_a_batch_links_all_its_passengers_each_in_a_trace_of_its_own(depot: Depot, spans: Spans) -> None:
    await depot.start(tracing_to=spans.tracing, max_batch_size=4, max_wait_ms=10_000)
    async with AsyncClient(depot.url) as client:
        await asyncio.gather(*(client.generate(prompt=f"{n}", max_tokens=2, timeout_s=20) for n in range(4)))
    await spans.until("busload delivery", 4)
    calls, (batch,) = spans.all("busload generate"), spans.all("busload batch")
    assert len(traces(calls)) == 4
    assert linked(batch) == {call.context.span_id for call in calls}
    assert batch.parent is None
    assert batch.attributes is not None
    assert batch.attributes["messaging.batch.message_count"] == 4
    for name in ("wait", "run", "delivery"):
        assert traces(spans.all(f"busload {name}")) == traces(calls)


async def test_many_at_once_have_a_span_each_and_an_error_ends_it(depot: Depot, spans: Spans) -> None:
    async with AsyncClient(depot.url, max_queue_length=2) as client:
        told = await client.submit_many([{"prompt": f"{n}"} for n in range(3)], raise_when_full=False)
        with pytest.raises(RequestInvalid):
            await client.submit_many([{"prompt": "x", "metadata": {"a": "\ud800"}}])
    assert [one.state for one in told] == ["queued", "queued", "full"]
    good, refused, bad = spans.all("busload submit")[:2], *spans.all("busload submit")[2:]
    assert {span.status.status_code for span in good} == {StatusCode.UNSET}
    assert refused.status.status_code is StatusCode.ERROR
    assert bad.name == "busload submit"


async def test_a_request_that_does_not_ride_shows_why(
    depot: Depot, spans: Spans, request_of: Callable[..., Any]
) -> None:
    await depot.redis.set(depot.queue.keys.cancel("1"), 1, ex=60)
    await depot.push(request_of("1", trace={"traceparent": NEW_TRACE}))
    await depot.start(tracing_to=spans.tracing)
    (wait,) = await spans.until("busload wait", 1)
    assert (await depot.result("1")).status == "cancelled"
    assert wait.context.trace_id == 0x4BF92F3577B34DA6A3CE929D0E0E4736
    assert wait.attributes is not None
    assert wait.attributes["error.type"] == "cancelled"
    assert spans.all("busload run") == spans.all("busload batch") == []


async def test_a_request_whose_engine_died_is_linked_by_both_batches(
    depot: Depot, spans: Spans, request_of: Callable[..., Any]
) -> None:
    worker = await depot.start(tracing_to=spans.tracing, fake_per_token_ms=20, engine_host="process")
    await depot.push(request_of("1", max_tokens=50, trace={"traceparent": NEW_TRACE}))

    async def runs() -> bool:
        return worker.vitals.batch is not None

    await wait_until(runs, what="the batch runs")
    assert worker.vitals.engine is not None
    pid = worker.vitals.engine.pid
    assert pid is not None
    assert pid != os.getpid()
    os.kill(pid, signal.SIGKILL)
    assert (await depot.result("1")).status == "succeeded"
    died, good = await spans.until("busload batch", 2)
    assert (died.status.status_code, good.status.status_code) == (StatusCode.ERROR, StatusCode.UNSET)
    assert linked(died) == linked(good) == {0x00F067AA0BA902B7}
    (run,) = await spans.until("busload run", 1)
    assert linked(run) == {good.context.span_id}


async def test_what_is_no_trace_or_not_sampled_makes_no_span(
    depot: Depot, spans: Spans, request_of: Callable[..., Any]
) -> None:
    await depot.start(tracing_to=spans.tracing)
    odd = ("nonsense", f"00-{'0' * 32}-{'0' * 16}-01", NEW_TRACE[:-2] + "00")
    await depot.push(*(request_of(f"r{n}", trace={"traceparent": text}) for n, text in enumerate(odd)))
    assert {result.status for result in await depot.results("r0", "r1", "r2")} == {"succeeded"}
    await depot.push(request_of("good", trace={"traceparent": NEW_TRACE}))
    await spans.until("busload delivery", 1)
    assert len(spans.all("busload run")) == len(spans.all("busload batch")) == 1


async def test_a_request_with_a_trace_of_its_own_goes_as_it_is(depot: Depot, spans: Spans) -> None:
    async with AsyncClient(depot.url) as client:
        await client.submit(id="own", prompt="x", trace={"traceparent": NEW_TRACE})
        await client.submit(id="other", prompt="x")
    assert [span.attributes["messaging.message.id"] for span in spans.all("busload submit") if span.attributes] == [
        "other"
    ]


async def test_the_synchronous_client_hangs_under_its_caller_s_span(depot: Depot, spans: Spans) -> None:
    def call() -> None:
        with spans.producer.get_tracer("app").start_as_current_span("the caller"), Client(depot.url) as client:
            client.submit(prompt="x")

    await asyncio.to_thread(call)
    (caller,), (submit,) = spans.all("the caller"), spans.all("busload submit")
    assert parents([submit]) == {caller.context.span_id}


async def test_a_program_that_does_not_sample_a_trace_still_hands_it_on(depot: Depot) -> None:
    tracer = TracerProvider(sampler=ParentBased(ALWAYS_OFF)).get_tracer("p")

    async def seen(request: Any) -> Any:
        return request.trace

    carried = await ProducerTracing(tracer, "q").around("busload submit", _request(), seen)
    assert carried.is_sampled is False


async def test_a_tracer_that_does_nothing_ends_in_a_trace_that_means_nothing() -> None:
    async def seen(request: Any) -> Any:
        return request.trace

    carried = await ProducerTracing(trace.NoOpTracer(), "q").around("busload submit", _request(), seen)
    assert set(carried.traceparent) == {"0", "-"}


def test_without_a_provider_a_client_does_not_trace() -> None:
    assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider), "a test has set one for the process"
    assert producer_tracing("busload:default") is None


async def test_a_worker_process_exports_to_where_the_environment_says(
    depot: Depot, start_process: Callable[..., WorkerProcess], monkeypatch: pytest.MonkeyPatch, request_of: Any
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    process = await start_process().ready()
    await depot.push(request_of("1", trace={"traceparent": NEW_TRACE}))
    await depot.result("1")
    process.signal(signal.SIGTERM)
    assert await process.ended() == 0
    exported = [json.loads(text) for text in re.findall(r"^\{\n.*?^\}", process.log(), re.MULTILINE | re.DOTALL)]
    assert sorted(span["name"] for span in exported) == [
        "busload batch",
        "busload delivery",
        "busload run",
        "busload wait",
    ]
    assert {span["context"]["trace_id"] for span in exported} == {"0x4bf92f3577b34da6a3ce929d0e0e4736"}
    assert {span["resource"]["attributes"]["service.name"] for span in exported} == {"busload-worker"}


async def test_an_exporter_that_is_not_there_is_named_at_the_start(
    start_process: Callable[..., WorkerProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "pigeon")
    process = start_process()
    assert await process.ended() == 2
    assert "no exporter 'pigeon'" in process.log()


def _request() -> Any:
    from busload import Request

    return Request(id="1", prompt="x")
