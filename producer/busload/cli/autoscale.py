"""`busload autoscale`."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import typer

from ..autoscale.drivers import ComposeDriver, Driver, PrintDriver, compose_command
from ..autoscale.loop import Autoscaler
from ..autoscale.rules import Rules
from ..autoscale.telling import Told
from ..operating.reaching import queue_on
from .options import QUEUE, REDIS_URL, AsJson, IntervalS, QueueName, RedisUrl, partitions
from .output import DONE, PATIENCE_S, Output, perform

_EVERY_S = 60.0
"""People are told so often that nothing changes."""


class DriverName(StrEnum):
    """Who scales."""

    PRINT = "print"
    COMPOSE = "compose"


_RULES, _DRIVER = "How many", "Who scales"

TargetS = Annotated[
    float, typer.Option(min=0.01, help="Latency to keep, from arrival to answer, s", rich_help_panel=_RULES)
]
MinWorkers = Annotated[int, typer.Option(min=0, help="Never fewer; 0: none when idle", rich_help_panel=_RULES)]
MaxWorkers = Annotated[int, typer.Option(min=1, max=100_000, help="Never more", rich_help_panel=_RULES)]
QuietS = Annotated[
    float, typer.Option(min=0, help="Fewer only after so long in which fewer would do, s", rich_help_panel=_RULES)
]
IdleS = Annotated[
    float, typer.Option(min=0, help="The last worker goes so long after the last request, s", rich_help_panel=_RULES)
]
StepPercent = Annotated[
    float,
    typer.Option(
        min=1, max=100, help="Share of the workers to take away at once, one at least", rich_help_panel=_RULES
    ),
]
StartS = Annotated[float, typer.Option(min=0, help="What a worker takes to be ready, s", rich_help_panel=_RULES)]
Scaler = Annotated[
    DriverName, typer.Option("--driver", help="print: only say it; compose: do it", rich_help_panel=_DRIVER)
]
Service = Annotated[str, typer.Option(help="The workers' service in the compose file", rich_help_panel=_DRIVER)]
Files = Annotated[
    list[str], typer.Option("--compose-file", help="Compose file; may be given again", rich_help_panel=_DRIVER)
]


def autoscale(  # noqa: PLR0913, PLR0917 - each is an option of the command
    target_s: TargetS = 30.0,
    min_workers: MinWorkers = 1,
    max_workers: MaxWorkers = 4,
    quiet_s: QuietS = 180.0,
    idle_s: IdleS = 600.0,
    step_percent: StepPercent = 25.0,
    start_s: StartS = 60.0,
    driver: Scaler = DriverName.PRINT,
    service: Service = "worker",
    compose_file: Files = [],  # noqa: B006 - typer copies it
    interval_s: IntervalS = 5.0,
    redis_url: RedisUrl = REDIS_URL,
    queue: QueueName = QUEUE,
    as_json: AsJson = False,
) -> None:
    """Keep as many workers as the target latency needs, until SIGTERM or Ctrl-C.

    More come at once when they are needed; fewer after a quiet time, step by step. A worker that goes finishes its
    batch and hands back the rest. It tells what it does when something changes, and once a minute; with --json at each
    look. It needs a worker's or an operator's Redis user. When Redis is away, or when it ends, the workers stay as they
    are.

        busload autoscale --target-s 20 --max-workers 8

        busload autoscale --driver compose --min-workers 0 --idle-s 900

        busload autoscale --json | jq .workers
    """
    output = Output("busload autoscale", as_json)

    async def work() -> int:
        rules = Rules(
            target_s, min_workers, max_workers, quiet_s=quiet_s, idle_s=idle_s, step=step_percent / 100, start_s=start_s
        )
        scaler: Driver = PrintDriver()
        if driver is DriverName.COMPOSE:
            scaler = ComposeDriver(await compose_command(), service=service, files=compose_file)
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        async with queue_on(redis_url, queue, partitions=partitions.get(), patience_s=PATIENCE_S) as on:
            await Autoscaler(on, rules, scaler, _teller(output), output.complain).run(stop, interval_s=interval_s)
        output.note(f"{output.command}: stopped; the workers stay as they are")
        return DONE

    perform(output, work)


def _teller(output: Output) -> Callable[[Told], None]:
    last: Told | None = None

    def tell(now: Told) -> None:
        nonlocal last
        if output.as_json:
            output.json_line(asdict(now))
        elif last is None or (now.workers, now.why) != (last.workers, last.why) or now.at - last.at >= _EVERY_S:
            output.answer(now.line)
            last = now

    return tell
