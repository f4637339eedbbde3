"""A small load on a queue: so many requests, so many at once or so many a second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from uuid import uuid4

from busload_shared.errors import BusloadError
from busload_shared.result import Result

from ..async_client import AsyncClient


@dataclass(frozen=True, slots=True)
class Load:
    """`requests` in all. With a `rate` one comes every 1/rate s, however many are out; else `concurrency` are out."""

    requests: int
    concurrency: int
    rate: float | None
    prompt: str
    max_tokens: int
    route: str | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """One request's end. `latency_s` is what its producer saw, from before the submit to the result."""

    latency_s: float
    result: Result


@dataclass(slots=True)
class Run:
    """What came of a load so far. `errors` are of requests that got no result, by what was said of them."""

    began: float
    ended: float = 0.0
    samples: list[Sample] = field(default_factory=list)
    errors: list[BusloadError] = field(default_factory=list)
    out: set[str] = field(default_factory=set)

    @property
    def over(self) -> int:
        """Requests that have ended, well or not."""
        return len(self.samples) + len(self.errors)

    @property
    def elapsed_s(self) -> float:
        return max(1e-9, (self.ended or time.monotonic()) - self.began)


async def put_load(client: AsyncClient, load: Load, tell: Callable[[Run], None]) -> Run:
    """Send it all and wait for all. When this is cancelled, the requests that are out are cancelled too."""
    run = Run(time.monotonic())
    try:
        async with asyncio.TaskGroup() as group:
            seats = asyncio.Semaphore(load.requests if load.rate else load.concurrency)
            async for number in _paced(load, run.began):
                await seats.acquire()
                ask = _ask(client, load, f"bench-{number}-{uuid4().hex[:12]}", run)
                task = group.create_task(ask)
                task.add_done_callback(lambda _: seats.release())
                task.add_done_callback(lambda _: tell(run))
    except asyncio.CancelledError:
        await _call_off(client, run)
        raise
    run.ended = time.monotonic()
    return run


async def _paced(load: Load, began: float) -> AsyncIterator[int]:
    for number in range(load.requests):
        if load.rate:
            await asyncio.sleep(max(0.0, began + number / load.rate - time.monotonic()))
        yield number


async def _ask(client: AsyncClient, load: Load, request_id: str, run: Run) -> None:
    began = time.monotonic()
    run.out.add(request_id)
    try:
        result = await client.generate(id=request_id, prompt=load.prompt, max_tokens=load.max_tokens, route=load.route)
        run.samples.append(Sample(time.monotonic() - began, result))
    except BusloadError as error:
        run.errors.append(error)
    run.out.discard(request_id)


async def _call_off(client: AsyncClient, run: Run) -> None:
    for request_id in sorted(run.out):
        await client.cancel(request_id)
