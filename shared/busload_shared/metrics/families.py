"""One family of Prometheus series at a time, from plain numbers. Needs prometheus_client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from .histogram import Histogram


class Families:
    """Makes families whose series all carry the same first label, such as the queue they are about. Every value of a
    further label is shown from the start, at 0."""

    def __init__(self, label: str, value: str) -> None:
        self._label, self._value = label, value

    def counter(self, name: str, about: str, value: float) -> CounterMetricFamily:
        """A total without further labels. `name` is without `_total`."""
        family = CounterMetricFamily(name, about, labels=[self._label])
        family.add_metric([self._value], value)
        return family

    def counters(
        self, name: str, about: str, label: str, values: Mapping[Any, float], *, known: Iterable[str]
    ) -> CounterMetricFamily:
        """A total for each value of `label`: those `known`, and no others."""
        family = CounterMetricFamily(name, about, labels=[self._label, label])
        for one in known:
            family.add_metric([self._value, one], values.get(one, 0.0))
        return family

    def gauge(self, name: str, about: str, value: float) -> GaugeMetricFamily:
        """What is so now, without further labels."""
        family = GaugeMetricFamily(name, about, labels=[self._label])
        family.add_metric([self._value], value)
        return family

    def gauges(self, name: str, about: str, label: str, values: Mapping[str, float]) -> GaugeMetricFamily:
        """What is so now, for each value of `label`."""
        family = GaugeMetricFamily(name, about, labels=[self._label, label])
        for one, value in values.items():
            family.add_metric([self._value, one], value)
        return family

    def info(self, name: str, about: str, more: Mapping[str, str]) -> GaugeMetricFamily:
        """Always 1; its labels say what the process is."""
        family = GaugeMetricFamily(name, about, labels=[self._label, *more])
        family.add_metric([self._value, *more.values()], 1.0)
        return family

    def histogram(self, name: str, about: str, histogram: Histogram) -> HistogramMetricFamily:
        """How values are spread."""
        family = HistogramMetricFamily(name, about, labels=[self._label])
        family.add_metric([self._value], histogram.buckets(), histogram.total)
        return family
