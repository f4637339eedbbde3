"""Opens and closes a worker's metrics endpoint, if its settings want one."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from busload_shared.errors import SettingsInvalid

from .logs import fields
from .settings import Settings
from .vitals import Vitals

logger = logging.getLogger("busload.metrics")


@contextmanager
def metrics_endpoint(vitals: Vitals, settings: Settings) -> Iterator[None]:
    """Serve metrics meanwhile. Raises SettingsInvalid when they are wanted and cannot be served."""
    if not settings.metrics_port:
        yield
        return
    try:
        from .metrics import serve_metrics
    except ModuleNotFoundError as missing:
        if missing.name != "prometheus_client":
            raise
        cure = 'pip install "busload[worker]", or set it to 0'
        raise SettingsInvalid(f"BUSLOAD_METRICS_PORT needs prometheus-client: {cure}") from None
    server = serve_metrics(vitals, settings)
    logger.info("metrics are served", extra=fields(host=settings.metrics_host, port=server.port))
    try:
        yield
    finally:
        server.close()
