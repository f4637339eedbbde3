"""`busload migrate`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from busload_shared.connection import persist
from busload_shared.layout import Found, Layout, Step
from busload_shared.scripts import load_all

from ..operating.reaching import queue_on
from .options import QUEUE, REDIS_URL, AsJson, QueueName, RedisUrl, Yes, partitions
from .output import BAD_NEWS, DONE, Output, confirmed, perform

_PATIENCE_S = 30.0
"""A change of keys takes minutes, and survives a Redis that restarts meanwhile."""

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only tell what would be done; ends with 1 if anything")]


def migrate(
    dry_run: DryRun = False,
    yes: Yes = False,
    redis_url: RedisUrl = REDIS_URL,
    queue: QueueName = QUEUE,
    as_json: AsJson = False,
) -> None:
    """Change a queue's keys to the layout of this version.

    Needed only where a worker says so at its start. Stop the queue's workers and Python clients, and make a backup
    first. What is killed in the middle goes on when it is called again. It also loads this version's scripts, for
    producers that are upgraded before the workers and may not load any.

        busload migrate --dry-run

        busload migrate --yes
    """
    output = Output("busload migrate", as_json)

    async def work() -> int:
        async with queue_on(redis_url, queue, partitions=partitions.get(), patience_s=_PATIENCE_S) as on:
            layouts = [Layout(part.redis, part.keys.queue, patience_s=_PATIENCE_S) for part in on.parts]
            due = [_show(output, layout, await layout.find(), await layout.due()) for layout in layouts]
            if dry_run:
                return BAD_NEWS if any(due) else DONE
            for redis in {part.redis for part in on.parts}:
                await persist(partial(load_all, redis), patience_s=_PATIENCE_S)
            if not any(due):
                return DONE
            if not confirmed(output, f"Change the keys of {queue}?", yes=yes):
                return BAD_NEWS
            for layout in layouts:
                await layout.migrate(lambda to, step: output.note(f"layout {to}: {step.what}"))
                output.note(f"{layout.keys.queue} has layout {layout.newest}", "green")
        output.note("start the workers")
        return DONE

    perform(output, work, interrupted="call it again: no worker starts before it is done")


def _show(output: Output, layout: Layout, found: Found, due: list[Step]) -> bool:
    """Tell what is due. Returns whether anything is."""
    name = layout.keys.queue
    if output.as_json:
        steps = [step.what for step in due]
        output.json_line({"queue": name, "layout": found.layout, "newest": layout.newest, "steps": steps})
    elif not due:
        output.answer(f"{name} has layout {found.layout}, the newest that this version knows: nothing to do")
    else:
        output.answer(f"{name} has layout {found.layout}, this version needs {layout.newest}:")
        for to, step in enumerate(due, found.layout + 1):
            interrupted = found.under_way and to == found.layout + 1
            output.answer(f"  to {to}: {step.what}{' (was begun and interrupted)' if interrupted else ''}")
    return bool(due)
