"""`busload top`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import Annotated

import typer
from pydantic import TypeAdapter
from rich.console import RenderableType
from rich.live import Live
from rich.text import Text

from busload_shared.connection import without_secrets
from busload_shared.errors import BusloadUnavailable
from busload_shared.queue import Queue

from ..operating.reaching import queue_on
from ..operating.watching import Frame, Watch, look_at
from .keyboard import quit_key
from .options import QUEUE, REDIS_URL, AsJson, IntervalS, RedisUrl, partitions
from .output import DONE, PATIENCE_S, Output, perform
from .top_view import top_picture

Queues = Annotated[
    list[str],
    typer.Option(
        "--queue",
        envvar="BUSLOAD_QUEUE",
        help="Name of a queue's list; may be given again",
        rich_help_panel="Queue",
    ),
]
Once = Annotated[bool, typer.Option("--once", help="Print one frame and end")]

_GLANCE_S = 0.2
"""Buses are looked for so often, whatever the interval: short ones would be missed."""


@dataclass(slots=True)
class _Sight:
    """The queues that are watched, and what was seen of them last."""

    output: Output
    queues: Sequence[Queue]
    watches: Sequence[Watch]
    interval_s: float
    where: str
    frames: list[Frame] = field(default_factory=list)

    async def look(self) -> None:
        """Take a frame of each queue. Raises BusloadUnavailable."""
        self.frames = [await look_at(queue, watch) for queue, watch in self._pairs()]

    async def wait(self) -> None:
        """Let one interval pass, looking for buses meanwhile. Raises BusloadUnavailable."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self.interval_s
        while (left := until - loop.time()) > 0:
            await asyncio.sleep(min(_GLANCE_S, left))
            await self._glance()

    def picture(self, note: str) -> RenderableType:
        """What was seen last, as high as the terminal."""
        height = self.output.out.height if self.output.out.is_terminal else 60
        return top_picture(self.frames, where=self.where, note=note, height=height)

    def show(self) -> None:
        """Print what was seen last."""
        if not self.output.as_json:
            self.output.out.print(self.picture(f"every {self.interval_s:g} s"))
            return
        for frame in self.frames:
            self.output.json_line(TypeAdapter(Frame).dump_python(frame, mode="json"))

    async def _glance(self) -> None:
        for queue, watch in self._pairs():
            watch.see(await queue.running())

    def _pairs(self) -> list[tuple[Queue, Watch]]:
        return list(zip(self.queues, self.watches, strict=True))


def top(
    queues: Queues = [QUEUE],  # noqa: B006 - typer copies it
    interval_s: IntervalS = 1.0,
    once: Once = False,
    redis_url: RedisUrl = REDIS_URL,
    as_json: AsJson = False,
) -> None:
    """Watch queues, workers and buses live. q or Ctrl-C leaves.

    Without a terminal it prints a frame each interval. Rates are those of the last ten seconds. Of buses that were out
    for less than a fifth of a second each worker tells its last 16; rates and fill count them all. A producer's Redis
    user sees no buses and no ages; an analyst's sees nothing.

        busload top

        busload top --queue busload:chat --queue busload:bulk --interval-s 2

        busload top --once --json | jq .fill
    """
    output = Output("busload top", as_json)

    async def work() -> int:
        async with AsyncExitStack() as stack:
            reached = (queue_on(redis_url, name, partitions=partitions.get(), patience_s=PATIENCE_S) for name in queues)
            on = [await stack.enter_async_context(one) for one in reached]
            sight = _Sight(output, on, [Watch() for _ in on], interval_s, without_secrets(redis_url))
            async with output.patient("asking Redis"):
                await sight.look()
            if once:
                await sight.wait()
                await sight.look()
                sight.show()
            elif as_json or not output.out.is_terminal or output.out.is_dumb_terminal:
                await _print_for_ever(sight)
            else:
                await _live(sight)
        return DONE

    perform(output, work)


async def _print_for_ever(sight: _Sight) -> None:
    while True:
        sight.show()
        if not sight.output.as_json:
            sight.output.out.print(Text())
        await sight.wait()
        await sight.look()


async def _live(sight: _Sight) -> None:
    """A picture that fills the terminal. A Redis that goes away is told in it, and awaited."""
    with quit_key() as pressed, Live(console=sight.output.out, screen=True, auto_refresh=False) as live:
        looking = asyncio.create_task(_refresh(sight, live))
        leaving = asyncio.create_task(pressed.wait())
        try:
            await asyncio.wait({looking, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if looking.done():
                looking.result()
        finally:
            for task in (looking, leaving):
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task


async def _refresh(sight: _Sight, live: Live) -> None:
    note = f"every {sight.interval_s:g} s, q leaves"
    while True:
        live.update(sight.picture(note), refresh=True)
        try:
            await sight.wait()
            await sight.look()
            note = f"every {sight.interval_s:g} s, q leaves"
        except BusloadUnavailable as error:
            note = str(error)
