"""Stops and answers running rows that nobody wants any more."""

from __future__ import annotations

from collections.abc import Callable

from busload_shared.queue import Queue

from .engines.protocol import Engine
from .running import BatchRun


async def stop_unwanted(queue: Queue, engine: Engine, current: Callable[[], BatchRun | None]) -> None:
    """Stop those that somebody cancelled, and those whose deadline has passed. `current` gives the run of now."""
    run = current()
    if run is None:
        return
    names = await queue.cancels(list(run.waiting_ids()), batch=run.ride.claim.batch)
    if current() is not run:
        return  # the engine runs another batch by now, whose rows have the same numbers
    running = run.waiting_ids()
    cancelled = frozenset(running[name] for name in names if name in running)
    overdue = run.overdue() - cancelled
    if cancelled or overdue:
        engine.abort(cancelled | overdue)
    for index in cancelled:
        run.cancel(index)
    for index in overdue:
        run.expire(index)
