"""Options that many commands share, with their names in the environment."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Annotated

import typer

from busload_shared.partitions.homes import MOST

REDIS_URL = "redis://127.0.0.1:6379/0"
QUEUE = "busload:default"

partitions: ContextVar[int] = ContextVar("partitions", default=1)
"""What was given before the command's name: it is the same for all commands on a queue."""

RedisUrl = Annotated[
    str,
    typer.Option(
        "--redis-url",
        envvar="BUSLOAD_REDIS_URL",
        help="Where Redis is. Give one with a password through the environment",
        rich_help_panel="Queue",
    ),
]
QueueName = Annotated[
    str, typer.Option("--queue", envvar="BUSLOAD_QUEUE", help="Name of the queue's list", rich_help_panel="Queue")
]
Partitions = Annotated[
    int,
    typer.Option(
        "--partitions",
        envvar="BUSLOAD_PARTITIONS",
        min=1,
        max=MOST,
        help="Over how many lists the queue is spread; as many as its workers serve",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout and nothing else there")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask")]
TimeoutS = Annotated[float | None, typer.Option("--timeout-s", min=0, help="Give up after so long, s")]
IntervalS = Annotated[float, typer.Option("--interval-s", min=0.1, max=3600, help="Look again after so long, s")]
