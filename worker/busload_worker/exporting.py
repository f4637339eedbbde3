"""The worker's tracer provider, from the variables that OpenTelemetry defines (`OTEL_…`)."""

from __future__ import annotations

import logging
import os
import threading
from importlib.metadata import entry_points, version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from busload_shared.errors import SettingsInvalid

from .settings import Settings
from .tracing import WorkerTracing

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

logger = logging.getLogger("busload.tracing")

WHERE_TO = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_TRACES_EXPORTER")
"""One of these says that spans are wanted."""

CLOSE_S = 5.0
"""How long the last spans may take to leave when the worker ends."""

INSTALL = 'pip install "busload[otel]" opentelemetry-sdk opentelemetry-exporter-otlp'


class Exporting:
    """Where spans go. `tracing` is None when they are not wanted."""

    def __init__(self, settings: Settings) -> None:
        """Raises SettingsInvalid when tracing is `on` and cannot be, or when an exporter is named that is not there."""
        self.tracing: WorkerTracing | None = None
        self._provider: TracerProvider | None = None
        if not _wanted(settings):
            return
        self._provider = _make_provider(settings)
        tracer = self._provider.get_tracer("busload_worker", version("busload"))
        self.tracing = WorkerTracing(
            tracer, settings.queue, settings.max_batch_size, engine=settings.engine, model=settings.model
        )

    def close(self) -> None:
        """Send the last spans; what a deaf collector does not take in time is lost."""
        if self._provider is not None:
            # a daemon: the exporter's own patience must not keep the process
            last = threading.Thread(target=self._provider.shutdown, daemon=True)
            last.start()
            last.join(CLOSE_S)


def _wanted(settings: Settings) -> bool:
    if settings.tracing == "off" or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    named = [os.environ[name] for name in WHERE_TO if os.environ.get(name)]
    if settings.tracing == "auto" and (not named or os.environ.get("OTEL_TRACES_EXPORTER") == "none"):
        return False
    if find_spec("opentelemetry") is not None and find_spec("opentelemetry.sdk") is not None:
        return True
    if settings.tracing == "on":
        raise SettingsInvalid(f"BUSLOAD_TRACING=on needs OpenTelemetry's SDK: {INSTALL}")
    logger.warning("no tracing, though OTEL variables ask for it: %s, or set BUSLOAD_TRACING=off", INSTALL)
    return False


def _make_provider(settings: Settings) -> TracerProvider:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import SpanLimits, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    named = {"service.instance.id": settings.worker_name}
    if not os.environ.get("OTEL_SERVICE_NAME") and "service.name=" not in os.environ.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    ):
        named["service.name"] = "busload-worker"
    own_limit = os.environ.get("OTEL_SPAN_LINK_COUNT_LIMIT")
    limits = SpanLimits(max_links=None if own_limit else max(128, settings.max_batch_size))
    provider = TracerProvider(resource=Resource.create(named), span_limits=limits, shutdown_on_exit=False)
    for name in _exporters():
        provider.add_span_processor(BatchSpanProcessor(_exporter(name)))
    return provider


def _exporters() -> list[str]:
    """Names of the exporters, as their packages register them."""
    names = [name.strip() for name in os.environ.get("OTEL_TRACES_EXPORTER", "otlp").split(",") if name.strip()]
    variables = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    protocol = next((os.environ[name] for name in variables if os.environ.get(name)), "grpc")
    otlp = "otlp_proto_http" if protocol.startswith("http") else "otlp_proto_grpc"
    return [otlp if name == "otlp" else name for name in names if name != "none"]


def _exporter(name: str) -> Any:
    found = entry_points(group="opentelemetry_traces_exporter", name=name)
    if not found:
        known = sorted(point.name for point in entry_points(group="opentelemetry_traces_exporter"))
        raise SettingsInvalid(
            f"no exporter {name!r} for traces is installed (there is: {', '.join(known) or 'none'}): {INSTALL}, "
            "or set OTEL_TRACES_EXPORTER, OTEL_EXPORTER_OTLP_PROTOCOL or BUSLOAD_TRACING=off"
        )
    return next(iter(found)).load()()
