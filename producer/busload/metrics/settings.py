"""The exporter's settings: flags over the environment over defaults. Read once, by `__main__`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from busload_shared.errors import SettingsInvalid
from busload_shared.partitions.homes import MOST

_ABOUT = "Serve Prometheus metrics of Busload's queues. A flag's variable is named behind it."


@dataclass(frozen=True, slots=True)
class ExporterSettings:
    """Which queues on which Redis, and where to serve. `kept_s` is how long one look is shown again."""

    redis_url: str = field(repr=False)
    queues: tuple[str, ...]
    partitions: int
    host: str
    port: int
    kept_s: float


def read_settings(arguments: Sequence[str] | None, environment: Mapping[str, str]) -> ExporterSettings:
    """Raises SettingsInvalid; wrong flags end the process, as argparse does, with code 2."""
    chosen = _parser().parse_args(arguments)
    names = chosen.queue or [one.strip() for one in environment.get("BUSLOAD_QUEUE", "").split(",") if one.strip()]
    port = chosen.port or environment.get("BUSLOAD_EXPORTER_PORT", "9108")
    if not port.isdigit() or int(port) > 65_535:
        raise SettingsInvalid(f"port {port!r}: write a number from 0 to 65535, 0 for any that is free")
    partitions = str(chosen.partitions or environment.get("BUSLOAD_PARTITIONS") or 1)
    if not partitions.isdecimal() or not 1 <= int(partitions) <= MOST:
        raise SettingsInvalid(f"partitions {partitions!r}: write a number from 1 to {MOST}")
    return ExporterSettings(
        redis_url=chosen.redis_url or environment.get("BUSLOAD_REDIS_URL") or "redis://127.0.0.1:6379/0",
        queues=tuple(dict.fromkeys(names)) or ("busload:default",),
        partitions=int(partitions),
        host=chosen.host or environment.get("BUSLOAD_EXPORTER_HOST") or "127.0.0.1",
        port=int(port),
        kept_s=max(1.0, chosen.kept_s),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="busload-exporter", description=_ABOUT)
    parser.add_argument("--redis-url", help="Redis of the queues; BUSLOAD_REDIS_URL [redis://127.0.0.1:6379/0]")
    parser.add_argument(
        "--queue",
        action="append",
        help="queue to show, once for each; BUSLOAD_QUEUE, separated by commas [busload:default]",
    )
    parser.add_argument("--partitions", help="lists over which each queue is spread; BUSLOAD_PARTITIONS [1]")
    parser.add_argument("--host", help="address to serve on; BUSLOAD_EXPORTER_HOST [127.0.0.1]")
    parser.add_argument("--port", help="port to serve on, 0: any free; BUSLOAD_EXPORTER_PORT [9108]")
    parser.add_argument(
        "--kept-s", type=float, default=1.0, help="a look at Redis is shown again for so long, s, 1 at least [1]"
    )
    return parser
