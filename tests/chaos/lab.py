"""All that a run is made of, for the faults to harm."""

from __future__ import annotations

import asyncio
import contextlib
import random
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis
from redis.asyncio import Redis
from tests.chaos.asking import raw
from tests.chaos.fleet import QUEUE, Fleet
from tests.chaos.launching import SteppedClock
from tests.chaos.ledger import Ledger
from tests.chaos.load import Load
from tests.chaos.older import older_code
from tests.chaos.options import Options
from tests.chaos.producers import Orders
from tests.chaos.proxy import Proxy
from tests.chaos.server import ChaosServer
from tests.chaos.worker_process import ChaosWorker

from busload_shared.element import Element
from busload_shared.keys import Keys
from busload_shared.partitions.homes import partition_names, partition_of
from busload_shared.partitions.spread import SpreadQueue
from busload_shared.queue import Queue

CONVICTED_S = 90.0


@dataclass(slots=True)
class Lab:
    """`direct` is a client past all proxies. `alone` is held by a fault that harms everybody. The second producers'
    process has a clock that can be stepped."""

    options: Options
    folder: Path
    server: ChaosServer
    direct: Redis
    fleet: Fleet
    front: Proxy
    loads: list[Load]
    ledger: Ledger
    clock: SteppedClock
    alone: asyncio.Lock
    old_code: Path | None
    why_no_old: str

    @property
    def keys(self) -> list[Keys]:
        """Of each partition."""
        return [Keys(name) for name in partition_names(QUEUE, self.options.partitions)]

    def home(self, request_id: str) -> Keys:
        """Of the partition that this request belongs to."""
        return self.keys[partition_of(request_id, self.options.partitions)]

    def queue(self) -> Queue:
        """The queue, past all proxies."""
        parts = [Queue(self.direct, keys.queue) for keys in self.keys]
        return parts[0] if len(parts) == 1 else SpreadQueue(parts, patience_s=5)

    @property
    def proxies(self) -> list[Proxy]:
        return [self.front, *self.fleet.proxies]

    async def poison(self, request_id: str, fault: str) -> None:
        """Push a request that kills whoever runs it, and wait for its conviction."""
        self.ledger.sent(request_id, time.monotonic(), poison=fault)
        await self.persist("LPUSH", self.home(request_id).queue, raw(request_id, fault))
        give_up = time.monotonic() + CONVICTED_S
        while time.monotonic() < give_up:
            if await self.persist("EXISTS", self.home(request_id).result(request_id)):
                self.ledger.heard(request_id, time.monotonic(), "")
                return
            await asyncio.sleep(0.05)
        self.ledger.odd.append(f"{request_id}: not convicted within {CONVICTED_S:.0f} s")

    async def persist(self, *command: object) -> Any:
        """A command past all proxies, repeated while Redis is away or full."""
        give_up = time.monotonic() + 60
        while True:
            try:
                return await self.direct.execute_command(*command)
            except (redis.RedisError, OSError):
                if time.monotonic() > give_up:
                    raise
                await asyncio.sleep(0.05)

    async def held_by(self, worker: ChaosWorker) -> frozenset[str]:
        """The ids that this worker has in flight now; nothing when Redis cannot tell at once."""
        batches: dict[bytes, bytes] = {}
        rows: dict[bytes, bytes] = {}
        try:
            async with asyncio.timeout(0.3):
                for keys in self.keys:
                    batches |= await self.direct.hgetall(keys.batches)
                    rows |= await self.direct.hgetall(keys.inflight)
        except (redis.RedisError, OSError, TimeoutError):
            return frozenset()
        its = {batch for batch, meta in batches.items() if worker.process_name.encode() in meta.split()}
        held = [element for field, element in rows.items() if field.rpartition(b":")[0] in its]
        return frozenset(Element.parse(element, latest_ms=time.time() * 1000).id for element in held)

    def calm(self) -> None:
        """Put back whatever a fault may have left."""
        for proxy in self.proxies:
            proxy.delay_s, proxy.refusing = 0.0, False
            proxy.traps.clear()


@asynccontextmanager
async def open_lab(options: Options, *, settings: dict[str, str] | None = None) -> AsyncIterator[Lab]:
    """Start everything; end everything, whatever happens."""
    server = ChaosServer.of(options.redis, fsync=options.fsync)
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="busload-chaos-")))
        stack.callback(server.remove)
        server.start()
        direct = server.direct()
        stack.push_async_callback(direct.aclose)
        front = Proxy(server.port)
        stack.push_async_callback(front.close)
        await front.start()
        fleet = Fleet(options, folder, server.port, settings)
        stack.push_async_callback(fleet.close)
        await fleet.start()
        old_code, why = await older_code(options, folder, server.port)
        ledger, clock = Ledger(), SteppedClock(folder / "producer.clock")
        loads = [Load(ledger, *given) for given in zip(_orders(options, front.url), (None, clock), strict=True)]
        for load in loads:
            stack.push_async_callback(load.close)
            await load.start()
        yield Lab(options, folder, server, direct, fleet, front, loads, ledger, clock, asyncio.Lock(), old_code, why)


def _orders(options: Options, url: str) -> list[Orders]:
    dice = random.Random(options.seed)
    at_once = max(6, int(options.rate * 0.3))
    return [
        Orders(
            f"{name}{options.seed}",
            url,
            QUEUE,
            options.partitions,
            options.rate * share,
            int(at_once * share) + 1,
            dice.getrandbits(32),
        )
        for name, share in (("a", 0.7), ("b", 0.3))
    ]
