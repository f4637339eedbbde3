"""Opens and closes a process's metrics endpoint, and says what to install where its library is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..errors import SettingsInvalid

if TYPE_CHECKING:
    from .serving import MetricsServer


@contextmanager
def endpoint(serve: Callable[[], MetricsServer], *, variable: str, extra: str) -> Iterator[None]:
    """Serve meanwhile. `serve` imports what needs prometheus_client, and opens; `variable` asked for it, and `extra`
    brings it. Raises SettingsInvalid when it cannot be served."""
    try:
        server = serve()
    except ModuleNotFoundError as missing:
        if missing.name != "prometheus_client":
            raise
        cure = f'pip install "busload[{extra}]", or set it to 0'
        raise SettingsInvalid(f"{variable} needs prometheus-client: {cure}") from None
    try:
        yield
    finally:
        server.close()
