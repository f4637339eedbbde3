"""A worker's metrics endpoint, if its settings want one."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from busload_shared.metrics.endpoint import endpoint

from .logs import fields
from .settings import Settings
from .vitals import Vitals

if TYPE_CHECKING:
    from busload_shared.metrics.serving import MetricsServer

logger = logging.getLogger("busload.metrics")


def metrics_endpoint(vitals: Vitals, settings: Settings) -> AbstractContextManager[None]:
    """Serve metrics meanwhile. Entering raises SettingsInvalid when they are wanted and cannot be served."""

    def serve() -> MetricsServer:
        from .metrics import serve_metrics

        server = serve_metrics(vitals, settings)
        logger.info("metrics are served", extra=fields(host=settings.metrics_host, port=server.port))
        return server

    if not settings.metrics_port:
        return nullcontext()
    return endpoint(serve, variable="BUSLOAD_METRICS_PORT", extra="worker")
