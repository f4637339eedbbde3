"""`busload-exporter`: serve the metrics of queues until told to stop."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence

from busload_shared.errors import SettingsInvalid

from .settings import ExporterSettings, read_settings

_MISSING = 'busload-exporter needs prometheus-client: pip install "busload[metrics]"'


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 0 when it was told to stop, 2 for a wrong setting."""
    try:
        asyncio.run(_serve(read_settings(arguments, os.environ)))
    except SettingsInvalid as error:
        print(f"busload-exporter: {error}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        if error.name != "prometheus_client":
            raise
        print(_MISSING, file=sys.stderr)
        return 2
    return 0


async def _serve(settings: ExporterSettings) -> None:
    from busload_shared.metrics.serving import MetricsServer

    from .exporter import registry_of
    from .lookout import Lookout

    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    lookout = Lookout(settings.redis_url, settings.queues, kept_s=settings.kept_s, partitions=settings.partitions)
    server = MetricsServer(
        registry_of(lookout),
        host=settings.host,
        port=settings.port,
        variables="--host and --port, or BUSLOAD_EXPORTER_HOST and BUSLOAD_EXPORTER_PORT",
    )
    print(f"metrics of {', '.join(settings.queues)} on http://{settings.host}:{server.port}/metrics", flush=True)
    await stopped.wait()
    await asyncio.to_thread(server.close)  # a scrape under way still needs this loop
    await lookout.close()


if __name__ == "__main__":
    sys.exit(main())
