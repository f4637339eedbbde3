"""Asks what became of the requests of batches that died here."""

from __future__ import annotations

from busload_shared.queue import Queue
from busload_shared.result import Result, Status

from .standing import Standing


async def follow(queue: Queue, standing: Standing) -> None:
    """Tell `standing` how they ended, those that have by now."""
    names = standing.asked()
    bodies = await queue.results(names)
    standing.became({name: _status(body) for name, body in zip(names, bodies, strict=True) if body is not None})


def _status(body: bytes) -> Status:
    """What is no Result was written by somebody else, and proves nothing."""
    try:
        return Result.model_validate_json(body).status
    except ValueError:
        return "failed"
