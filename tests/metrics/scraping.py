"""What a scrape holds, as numbers by series."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

Series = dict[str, float]

OF_ONE_PROCESS = ("queue", "worker", "engine", "model", "engine_version")
"""Labels that say whose series it is: they have one value in a process, or one for each queue."""


def scrape(registry: CollectorRegistry) -> Series:
    """As Prometheus would read it."""
    return read(generate_latest(registry).decode())


def read(text: str) -> Series:
    """`name{label}` to value: our series only, of a histogram its count and sum."""
    return {
        name + "".join(f"{{{labels[label]}}}" for label in sorted(labels) if label not in OF_ONE_PROCESS): value
        for family in text_string_to_metric_families(text)
        for name, labels, value, *_ in family.samples
        if name.startswith("busload_") and not name.endswith("_bucket")
    }


def names(series: Iterable[str]) -> set[str]:
    """Without their labels, and a histogram once."""
    return {
        one.partition("{")[0].removesuffix("_count").removesuffix("_sum")
        if "_seconds_total" not in one
        else one.partition("{")[0]
        for one in series
    }
