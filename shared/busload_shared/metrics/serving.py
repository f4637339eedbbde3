"""Serves a process's metrics over HTTP, from a thread that sleeps between scrapes. Needs prometheus_client."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from socketserver import TCPServer, ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app

from ..errors import SettingsInvalid

IDLE_S = 10.0
"""A caller that sends nothing for so long is let go."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def server_bind(self) -> None:
        TCPServer.server_bind(self)  # HTTPServer's own asks the name service for the host's name, which may take long
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]
        self.setup_environ()

    def handle_error(self, *_: object) -> None:
        """A caller that hangs up is no news."""


class _ServerOverIPv6(_Server):
    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    timeout = IDLE_S

    def log_message(self, *_: object) -> None:
        """A scrape every few seconds is no news."""


class MetricsServer:
    """Answers every path. Reading the numbers is the registry's work, done in the caller's thread."""

    def __init__(self, registry: CollectorRegistry, *, host: str, port: int, variables: str) -> None:
        """`port` 0 takes any that is free. Raises SettingsInvalid, which names the `variables` to change."""
        kind = _ServerOverIPv6 if ":" in host else _Server
        try:
            self._server = kind((host, port), _Handler)
        except (OSError, OverflowError) as error:
            raise SettingsInvalid(
                f"metrics cannot be served on {host} port {port}: {error}; choose others with {variables}"
            ) from None
        app: Callable[..., object] = make_wsgi_app(registry)
        self._server.set_app(app)  # type: ignore[arg-type]
        self.port: int = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, name="busload-metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Answer no more. Takes half a second at most."""
        self._server.shutdown()
        self._server.server_close()
