"""Runs the gateway under uvicorn until it is told to stop."""

from __future__ import annotations

import ipaddress
import logging
import signal
import socket
from typing import Final

import uvicorn

from busload_shared.errors import SettingsInvalid

from ..metrics.gateway_meter import GatewayMeter
from .application import application
from .metrics_endpoint import metrics_endpoint
from .settings import GatewaySettings

log: Final = logging.getLogger("busload.gateway")

KEEP_ALIVE_S = 75
"""Longer than clients keep idle connections, so that none sends into one that is just being closed."""


class _Server(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            where = self.servers[0].sockets[0].getsockname()
            log.info("listening on http://%s:%d", f"[{where[0]}]" if ":" in where[0] else where[0], where[1])


def serve(settings: GatewaySettings) -> int:
    """Serve until SIGTERM or SIGINT. Raises SettingsInvalid; returns the exit code."""
    check_address(settings)
    meter = GatewayMeter(queue=settings.queue)
    config = uvicorn.Config(
        application(settings, meter),
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        ws="none",
        lifespan="on",
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=settings.drain_s,
    )
    server = _Server(config)
    for number in (signal.SIGTERM, signal.SIGINT):  # uvicorn raises what it caught once more when it has ended
        signal.signal(number, lambda *_: None)
    with metrics_endpoint(meter, settings):
        try:
            server.run()
        except SystemExit as ended:  # the address is taken, and uvicorn has said so
            return int(ended.code or 0)
    return 0 if server.started else 1


def check_address(settings: GatewaySettings) -> None:
    """Raise SettingsInvalid when strangers could call without a key."""
    if settings.keys_file or settings.allow_anonymous or _is_loopback(settings.host):
        return
    raise SettingsInvalid(
        f"BUSLOAD_GATEWAY_HOST={settings.host}: anybody could call. Give BUSLOAD_GATEWAY_KEYS_FILE (busload-gateway "
        "new-key NAME makes a key), or BUSLOAD_GATEWAY_ALLOW_ANONYMOUS=true where others guard the way"
    )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
