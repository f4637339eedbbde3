"""`busload queue`."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer
from rich.live import Live
from rich.text import Text

from busload_shared.replies import QueueInfo

from ..async_client import AsyncClient
from .options import QUEUE, REDIS_URL, AsJson, IntervalS, QueueName, RedisUrl, partitions
from .output import DONE, PATIENCE_S, Output, perform
from .queue_view import queue_picture

Watch = Annotated[bool, typer.Option("--watch", help="Look again and again, until Ctrl-C")]


def queue(
    watch: Watch = False,
    interval_s: IntervalS = 2.0,
    redis_url: RedisUrl = REDIS_URL,
    queue: QueueName = QUEUE,
    as_json: AsJson = False,
) -> None:
    """Show what waits, what runs, dead letters and workers, from one moment.

    A producer's Redis user sees no ages; an analyst's sees nothing.

        busload queue

        busload queue --json | jq .waiting

        busload queue --watch --interval-s 1
    """
    output = Output("busload queue", as_json)

    async def work() -> int:
        async with AsyncClient(redis_url, queue=queue, partitions=partitions.get(), patience_s=PATIENCE_S) as client:
            async with output.patient("asking Redis"):
                info = await client.queue_info()
            if not watch:
                _show(output, info)
                return DONE
            await _watch(output, client, info, interval_s)
        return DONE

    perform(output, work)


async def _watch(output: Output, client: AsyncClient, info: QueueInfo, interval_s: float) -> None:
    if output.as_json or not output.out.is_terminal or output.out.is_dumb_terminal:
        while True:
            _show(output, info)
            if not output.as_json:
                output.out.print(Text())
            await asyncio.sleep(interval_s)
            info = await client.queue_info()
    with Live(queue_picture(info), console=output.out, auto_refresh=False) as live:
        while True:
            await asyncio.sleep(interval_s)
            live.update(queue_picture(await client.queue_info()), refresh=True)


def _show(output: Output, info: QueueInfo) -> None:
    if output.as_json:
        output.json_line(info)
    else:
        output.out.print(queue_picture(info))
