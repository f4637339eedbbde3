"""A process of producers: `python -m tests.chaos.producers <JSON of Orders>`.

It tells what it did on stdout, one line each, times on the monotonic clock, which all processes of a machine share:

    sent <id> <time>
    heard <id> <time> <fingerprint of the result>
    odd <id> <an error that nobody should have got>

SIGTERM: send nothing new, wait for what is outstanding, say `end`. SIGUSR1: tell on stderr what all wait for.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import ConstantBackoff
from redis.exceptions import RedisError
from tests.chaos.asking import fields_of, fingerprint, raw

from busload import AsyncClient, BusloadUnavailable, ResultTimeout
from busload_shared.keys import Keys
from busload_shared.partitions.homes import partition_names, partition_of

POLL_S = 0.05
AGAIN_S = 0.05


@dataclass(frozen=True, slots=True)
class Orders:
    """What one process of producers does: `rate` requests a second by `at_once` tasks at most."""

    name: str
    url: str
    queue: str
    partitions: int
    rate: float
    at_once: int
    seed: int

    def to_json(self) -> str:
        return json.dumps(asdict(self))


class Producers:
    """Three kinds in turn: `generate`, `submit` and `result`, and a raw LPUSH with GETs later."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._client = AsyncClient(orders.url, queue=orders.queue, partitions=orders.partitions)
        # repeats by itself, as redis-py does by default, only sooner: its own pauses of seconds are not ours to judge
        repeats = Retry(ConstantBackoff(0.05), 5)
        self._redis = Redis.from_url(orders.url, socket_timeout=5, retry=repeats)
        self._stop = asyncio.Event()
        self._dice = random.Random(orders.seed)
        self._count = 0

    async def run(self) -> None:
        """Produce until stopped, then wait for the last answers."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._stop.set)
        loop.add_signal_handler(signal.SIGUSR1, tell_where_all_are)
        kinds = [self._generate, self._submit, self._push]
        tasks = [asyncio.create_task(self._go_on(kinds[n % 3])) for n in range(self._orders.at_once)]
        await asyncio.gather(*tasks)
        print("end", flush=True)
        await self._client.close()
        await self._redis.aclose()

    async def _ask(self, ask: Callable[[str], Awaitable[str]], request_id: str) -> str:
        """Errors that the contract does not allow are told, and then the answer is still wanted."""
        while True:
            try:
                return await ask(request_id)
            except Exception as error:
                print("odd", request_id, repr(error), flush=True)
                await asyncio.sleep(AGAIN_S)

    async def _go_on(self, ask: Callable[[str], Awaitable[str]]) -> None:
        pause_s = self._orders.at_once / self._orders.rate
        await self._sleep(pause_s * self._dice.random())
        while not self._stop.is_set():
            began = time.monotonic()
            self._count += 1
            request_id = f"{self._orders.name}-{ask.__name__[1:]}-{self._count}"
            print("sent", request_id, time.monotonic())
            heard = await self._ask(ask, request_id)
            print("heard", request_id, time.monotonic(), heard, flush=True)
            wait_s = began + pause_s * self._dice.uniform(0.5, 1.5) - time.monotonic()
            await self._sleep(max(0.0, wait_s))

    async def _sleep(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)

    async def _generate(self, request_id: str) -> str:
        while True:
            try:
                return fingerprint((await self._client.generate(fields_of(request_id))).model_dump())
            except BusloadUnavailable:  # the contract: the same again, under the same id
                await asyncio.sleep(AGAIN_S)

    async def _submit(self, request_id: str) -> str:
        while True:
            try:
                await self._client.submit(fields_of(request_id))
                break
            except BusloadUnavailable:
                await asyncio.sleep(AGAIN_S)
        while True:  # acknowledged: from here on it may not be lost, and is not sent again
            try:
                return fingerprint((await self._client.result(request_id)).model_dump())
            except (BusloadUnavailable, ResultTimeout):
                await asyncio.sleep(AGAIN_S)

    def _home(self, request_id: str) -> Keys:
        names = partition_names(self._orders.queue, self._orders.partitions)
        return Keys(names[partition_of(request_id, len(names))])

    async def _push(self, request_id: str) -> str:
        payload, home = raw(request_id), self._home(request_id)
        while True:
            try:
                depth = await self._redis.lpush(home.queue, payload)
                if not isinstance(depth, int) or depth < 1:
                    print("odd", request_id, f"LPUSH was answered by {depth!r}", flush=True)
                break
            except (RedisError, OSError):  # it may have come through: the same element again is the same request
                await asyncio.sleep(AGAIN_S)
        key = home.result(request_id)
        while True:
            await asyncio.sleep(POLL_S)
            with contextlib.suppress(RedisError, OSError):
                if (body := await self._redis.get(key)) is not None:
                    result = json.loads(body)
                    if result["id"] != request_id:
                        print("odd", request_id, f"GET was answered by {body!r}", flush=True)
                    return fingerprint(result)


def tell_where_all_are() -> None:
    """What every task waits for, down to the innermost call, on stderr: for the case that some wait for ever."""
    for task in asyncio.all_tasks():
        print(task.get_name(), file=sys.stderr)
        inner: Any = task.get_coro()
        while (frame := getattr(inner, "cr_frame", None) or getattr(inner, "ag_frame", None)) is not None:
            known = {name: frame.f_locals[name] for name in ("request_id", "depth") if name in frame.f_locals}
            print(f"  {frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name} {known}", file=sys.stderr)
            inner = getattr(inner, "cr_await", None) or getattr(inner, "ag_await", None)
        print(f"  waits for {inner!r}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    asyncio.run(Producers(Orders(**json.loads(sys.argv[1]))).run())
