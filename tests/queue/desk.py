"""A worker in miniature for the client's tests: claims and answers through Queue, when the test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Self, TypeVar

from tests.waiting import wait_until

from busload import AsyncClient
from busload_shared.connection import open_redis
from busload_shared.queue import Queue
from busload_shared.replies import Claim, Delivery
from busload_shared.request import parse_request
from busload_shared.result import Output, Result

T = TypeVar("T")


class Desk:
    """Claims with no wait, and answers each request with `<prompt>!` unless told otherwise."""

    def __init__(self, url: str, queue: str) -> None:
        self.queue = Queue(open_redis(url, queue=queue), queue)
        self._names = (f"batch{number}" for number in count())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.queue.redis.aclose()

    async def claim(self, at_most: int = 64) -> Claim | None:
        """A batch of what waits now; None when nothing does."""
        found = await self.queue.claim(
            next(self._names), worker="desk", max_batch_size=at_most, max_wait_ms=0, lease_ms=60_000
        )
        return found if isinstance(found, Claim) else None

    async def answer(self, claim: Claim, text: str | None = None, *, ttl_s: float = 60.0) -> None:
        """Deliver every row of a batch."""
        rows = []
        for seat in claim.seats:
            said = text if text is not None else f"{parse_request(seat.element.payload).prompt}!"
            status = "cancelled" if seat.cancelled else "succeeded"
            outputs = (Output(index=0, text=said, finish_reason="stop"),)
            result = Result(id=seat.element.id, status=status, outputs=outputs).model_dump_json().encode()
            rows.append(Delivery(seat.position, seat.element.id, status, seat.element.reply, result))
        await self.queue.deliver(claim.batch, rows, ttl_s=ttl_s)

    async def answer_next(self, text: str | None = None, *, ttl_s: float = 60.0) -> Claim:
        """Wait for requests, claim them, answer them."""
        claims: list[Claim] = []

        async def claimed() -> bool:
            claims.extend(filter(None, [await self.claim()]))
            return bool(claims)

        await wait_until(claimed)
        await self.answer(claims[0], text, ttl_s=ttl_s)
        return claims[0]

    async def serve(self) -> None:
        """Answer all that comes, until cancelled."""
        while True:
            await self.answer_next()


def assert_nobody_waits(client: AsyncClient) -> None:
    """No future is left behind."""
    if client._wiring is not None:
        waiting = client._wiring.waiting
        assert not waiting._futures
        assert not waiting._patient
        assert not waiting._sending


async def subscriptions(desk: Desk) -> list[str]:
    """Channels of done ids somebody listens to."""
    channels = await desk.queue.redis.pubsub_channels("*:done:*")
    return sorted(channel.decode().rpartition(":")[2] for channel in channels)


async def listening(desk: Desk) -> bool:
    """Whether a client listens on its reply channel."""
    return bool(await desk.queue.redis.pubsub_channels("*:reply:*"))


def start(client: AsyncClient, name: str, **more: float) -> asyncio.Task[Result]:
    """Begin to wait for an id."""
    return asyncio.create_task(client.result(name, **more))


async def state(client: AsyncClient, name: str) -> str:
    """Where a request is."""
    return (await client.status(name)).state


async def becomes(read: Callable[[], Awaitable[T]], wanted: T) -> None:
    """Wait until `read` gives `wanted`."""

    async def equal() -> bool:
        return await read() == wanted

    await wait_until(equal)
