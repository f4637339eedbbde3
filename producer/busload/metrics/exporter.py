"""The exporter's series: each queue's, and how Redis does. Nothing is shown of what could not be read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from .lookout import Lookout, Sight
from .queue_series import queue_series


def registry_of(lookout: Lookout) -> CollectorRegistry:
    """All series of the exporter, and those of its process."""
    registry = CollectorRegistry()
    registry.register(QueueCollector(lookout))
    ProcessCollector(registry=registry)
    return registry


class QueueCollector(Collector):
    """One look at each scrape, or less: the lookout keeps what it saw for a while."""

    def __init__(self, lookout: Lookout) -> None:
        self._lookout = lookout

    def describe(self) -> list[Metric]:
        """Nothing: the registry would look only to learn the names."""
        return []

    def collect(self) -> Iterator[Metric]:
        sight = self._lookout.sight()
        yield from _redis_series(sight)
        up = GaugeMetricFamily("busload_queue_up", "Whether the queue could be read", labels=["queue"])
        for name, info in sight.queues.items():
            up.add_metric([name], float(info is not None))
        yield up
        yield from _joined([list(queue_series(info)) for info in sight.queues.values() if info is not None])


def _redis_series(sight: Sight) -> Iterator[Metric]:
    yield GaugeMetricFamily("busload_redis_up", "Whether Redis answered", value=float(sight.memory is not None))
    if sight.memory is not None:
        used, limit = sight.memory
        yield GaugeMetricFamily("busload_redis_memory_used_bytes", "Memory that Redis uses", value=used)
        about = "What Redis may use: maxmemory, or the machine's memory where none is set"
        yield GaugeMetricFamily("busload_redis_memory_limit_bytes", about, value=limit)


def _joined(queues: Sequence[list[Metric]]) -> Iterator[Metric]:
    """One family for all queues: Prometheus wants each name once."""
    for families in zip(*queues, strict=True):
        first: Metric = families[0]
        for other in families[1:]:
            first.samples += other.samples
        yield first
