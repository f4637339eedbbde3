"""Opens and closes the gateway's metrics endpoint, if its settings want one."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from busload_shared.errors import SettingsInvalid

from ..metrics.gateway_meter import GatewayMeter
from .settings import GatewaySettings

log: Final = logging.getLogger("busload.gateway")


@contextmanager
def metrics_endpoint(meter: GatewayMeter, settings: GatewaySettings) -> Iterator[None]:
    """Serve metrics meanwhile. Raises SettingsInvalid when they are wanted and cannot be served."""
    if not settings.metrics_port:
        yield
        return
    try:
        from busload_shared.metrics.serving import MetricsServer

        from ..metrics.gateway_series import registry_of
    except ModuleNotFoundError as missing:
        if missing.name != "prometheus_client":
            raise
        cure = 'pip install "busload[metrics]", or set it to 0'
        raise SettingsInvalid(f"BUSLOAD_GATEWAY_METRICS_PORT needs prometheus-client: {cure}") from None
    server = MetricsServer(
        registry_of(meter),
        host=settings.metrics_host,
        port=settings.metrics_port,
        variables="BUSLOAD_GATEWAY_METRICS_HOST and BUSLOAD_GATEWAY_METRICS_PORT",
    )
    log.info("metrics are served on port %d", server.port)
    try:
        yield
    finally:
        server.close()
