"""The gateway's metrics endpoint, if its settings want one."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final

from busload_shared.metrics.endpoint import endpoint

from ..metrics.gateway_meter import GatewayMeter
from .settings import GatewaySettings

if TYPE_CHECKING:
    from busload_shared.metrics.serving import MetricsServer

log: Final = logging.getLogger("busload.gateway")


def metrics_endpoint(meter: GatewayMeter, settings: GatewaySettings) -> AbstractContextManager[None]:
    """Serve metrics meanwhile. Entering raises SettingsInvalid when they are wanted and cannot be served."""

    def serve() -> MetricsServer:
        from busload_shared.metrics.serving import MetricsServer

        from ..metrics.gateway_series import registry_of

        server = MetricsServer(
            registry_of(meter),
            host=settings.metrics_host,
            port=settings.metrics_port,
            variables="BUSLOAD_GATEWAY_METRICS_HOST and BUSLOAD_GATEWAY_METRICS_PORT",
        )
        log.info("metrics are served on port %d", server.port)
        return server

    if not settings.metrics_port:
        return nullcontext()
    return endpoint(serve, variable="BUSLOAD_GATEWAY_METRICS_PORT", extra="metrics")
