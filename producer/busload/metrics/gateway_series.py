"""The gateway's series, from what its meter counted. Needs prometheus_client."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from busload_shared.metrics.families import Families

from .gateway_meter import ANSWERS, ENDPOINTS, REASONS, GatewayMeter


def registry_of(meter: GatewayMeter) -> CollectorRegistry:
    """All series of the gateway, and those of its process."""
    registry = CollectorRegistry()
    registry.register(GatewayCollector(meter))
    ProcessCollector(registry=registry)
    return registry


class GatewayCollector(Collector):
    """Reads the meter at each scrape."""

    def __init__(self, meter: GatewayMeter) -> None:
        self._meter = meter

    def describe(self) -> list[Metric]:
        """Nothing: the registry would ask for all only to learn the names."""
        return []

    def collect(self) -> Iterator[Metric]:
        m, of = self._meter, Families("queue", self._meter.queue)
        yield of.gauge("busload_gateway_running_calls", "Calls that are under way", m.running)
        yield of.counters("busload_gateway_calls", "Calls, by endpoint", "endpoint", m.calls, known=ENDPOINTS)
        about = "Calls by the class of their answer; none: the caller left before it"
        yield of.counters("busload_gateway_answers", about, "answer", m.answers, known=ANSWERS)
        about = "Calls that were refused, by the error's code"
        yield of.counters("busload_gateway_rejects", about, "reason", m.refusals, known=REASONS)
        yield of.histogram("busload_gateway_call_seconds", "From a call to the end of its answer", m.call_s)
        about = "Tokens of answers, as far as the gateway's log tells them"
        yield of.counter("busload_gateway_tokens", about, m.completion_tokens)
