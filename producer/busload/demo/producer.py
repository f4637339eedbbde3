"""The demo's producer: enqueues requests as time goes by, most through the client, some as a raw LPUSH."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from redis.asyncio import Redis
from redis.exceptions import RedisError

from busload import AsyncClient
from busload_shared.errors import BusloadUnavailable
from busload_shared.request import Request
from busload_shared.result import Result

from .arrivals import arrival_times
from .view import Board, View

_RAW_EVERY = 4
"""Each fourth request is pushed as any language can do it, without the client."""
_LOOK_S = 0.25
_SLOW_REDIS_S = 60.0
"""vLLM on few cores leaves little time to anyone else, Redis and this process included."""
_A_DAY_S = 86_400.0
"""Waits have a bound so that an id unknown yet is waited for; the demo bounds the whole by itself."""


class RawDoor(NamedTuple):
    """Where any language can push to: a Redis and the queue's list."""

    redis_url: str
    queue: str


async def ask(
    client: AsyncClient, requests: Sequence[Request], view: View, *, door: RawDoor, seats: int, seed: int
) -> list[Result]:
    """Enqueue each request when its time comes and give all results, in the order in which they came."""
    board = Board(seats=seats, total=len(requests))
    producer = _Producer(client, board, view, door.queue)
    arrivals = arrival_times(len(requests), seed=seed)
    raw_ones = len(requests) // _RAW_EVERY
    view.say(f"{len(requests)} requests come within {arrivals[-1]:.0f} s, {raw_ones} of them as a raw LPUSH")
    tasks = [asyncio.create_task(producer.watch())]
    with view.ride(board):
        async with Redis.from_url(door.redis_url, socket_timeout=_SLOW_REDIS_S) as raw:
            try:
                for number, (request, at_s) in enumerate(zip(requests, arrivals, strict=True), start=1):
                    await asyncio.sleep(at_s - board.elapsed_s)
                    pushed_raw = number % _RAW_EVERY == 0
                    tasks.append(asyncio.create_task(producer.answer(request, raw if pushed_raw else None)))
                await asyncio.gather(*tasks[1:])
            finally:
                for task in tasks:
                    task.cancel()
    return board.results


class _Producer:
    """Asks, waits for answers and tells the view of both."""

    def __init__(self, client: AsyncClient, board: Board, view: View, queue: str) -> None:
        self._client = client
        self._queue = queue
        self._board = board
        self._view = view

    async def answer(self, request: Request, raw: Redis | None) -> None:
        """Enqueue one request, by LPUSH if there is a raw connection, and wait for its answer."""
        self._board.asked[request.id] = request
        if raw is not None:
            self._board.pushed_raw.add(request.id)
            await self._push(raw, request)
        else:
            await self._client.submit(request)
        result = await self._client.result(request.id, timeout_s=_A_DAY_S)
        self._board.results.append(result)
        self._view.answered(self._board, result)

    async def _push(self, raw: Redis, request: Request) -> None:
        try:
            await raw.lpush(self._queue, request.model_dump_json(exclude_defaults=True))
        except RedisError as error:
            raise BusloadUnavailable(
                f"the demo's Redis did not take a request: {error}. Run the demo again."
            ) from error

    async def watch(self) -> None:
        """Keep the board's picture of the queue fresh."""
        while True:
            self._board.info = await self._client.queue_info()
            await asyncio.sleep(_LOOK_S)


def pick_sample(requests: Sequence[Request], count: int) -> list[Request]:
    """Up to `count` requests under new ids, spread evenly over the lengths asked for."""
    by_length = sorted(requests, key=lambda request: request.max_tokens)
    count = min(count, len(by_length))
    places = [(2 * place + 1) * len(by_length) // (2 * count) for place in range(count)]
    return [by_length[place].model_copy(update={"id": f"alone-{by_length[place].id}"[:256]}) for place in places]


async def ask_one_by_one(client: AsyncClient, requests: Sequence[Request], view: View) -> list[Result]:
    """Run each request alone, the next when the last is answered."""
    results: list[Result] = []
    if requests:
        with view.step(
            "One by one, for comparison:", f"{len(requests)} of them once more, one by one, for comparison"
        ) as tell:
            for request in requests:
                tell(f"{len(results) + 1} of {len(requests)}")
                results.append(await client.generate(request, timeout_s=_A_DAY_S))
    return results
