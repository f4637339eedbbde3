"""GET /health/live and /health/ready. No key is needed."""

from __future__ import annotations

import asyncio
from typing import Final, Literal

from fastapi import APIRouter, Request, Response

from busload_shared.errors import BusloadError

from ..openai_api.answers import OpenAIObject
from .desks import Desk, Desks
from .keys import KeyRing

router: Final = APIRouter(tags=["Health"])

PATIENCE_S = 2.0
"""A Redis that takes longer is not reachable."""


class Live(OpenAIObject):
    """The gateway's process answers."""

    status: Literal["live"] = "live"


class QueueHealth(OpenAIObject):
    """One queue: `redis` is what its Redis says, `workers_ready` how many take requests, `waiting` how many wait."""

    queue: str
    redis: Literal["ok", "unreachable"]
    workers_ready: int
    waiting: int | None
    message: str


class Ready(OpenAIObject):
    """`ready` when each queue that callers use has its Redis and a worker that is ready."""

    ready: bool
    queues: list[QueueHealth]


@router.get("/health/live")
async def live() -> Live:
    """Whether the process answers. Restart it when this does not."""
    return Live()


@router.get("/health/ready", responses={503: {"model": Ready, "description": "Not ready; it says which and why"}})
async def ready(request: Request, response: Response) -> Ready:
    """Whether a request sent now is served: Redis can be reached, and a worker is ready."""
    keys: KeyRing = request.app.state.keys
    desks: Desks = request.app.state.desks
    queues = await asyncio.gather(*(_health(desks.of(name)) for name in keys.queues(desks.of(None).queue)))
    told = Ready(ready=all(one.message == "ok" for one in queues), queues=list(queues))
    response.status_code = 200 if told.ready else 503
    return told


async def _health(desk: Desk) -> QueueHealth:
    try:
        async with asyncio.timeout(PATIENCE_S):
            info = await desk.client.queue_info()
    except TimeoutError:
        return _unreachable(desk, f"Redis does not answer within {PATIENCE_S:g} s: see that it runs")
    except BusloadError as error:
        return _unreachable(desk, str(error))
    count = sum(worker.state == "ready" for worker in info.workers)
    message = "ok" if count else "no worker is ready: start one, or see its log"
    return QueueHealth(queue=desk.queue, redis="ok", workers_ready=count, waiting=info.waiting, message=message)


def _unreachable(desk: Desk, message: str) -> QueueHealth:
    return QueueHealth(queue=desk.queue, redis="unreachable", workers_ready=0, waiting=None, message=message)
