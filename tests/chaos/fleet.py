"""The workers of a run: who is healthy, and who may be harmed now."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.chaos.launching import SteppedClock
from tests.chaos.options import BATCH, ROW_MS, Options
from tests.chaos.proxy import Proxy
from tests.chaos.worker_process import ChaosWorker

from busload_worker.smollm import smollm2_folder

QUEUE = "busload:chaos"
WAITS_S = 90.0
"""How long a fault waits for a worker that it may harm."""


def settings_of(options: Options) -> dict[str, str]:
    """Every worker's settings but those of its own place."""
    common = {"queue": QUEUE, "lease_s": options.lease_s, "max_wait_ms": 20, "max_batch_size": BATCH, "drain_s": 5}
    common |= {"partitions": options.partitions} if options.partitions > 1 else {}
    engine: dict[str, object] = {
        "engine": "fake",
        "engine_host": "process",
        "fake_overhead_ms": 5,
        "fake_per_token_ms": ROW_MS,
        "engine_hang_s": 2,
        "max_batch_s": 3,
    }
    if options.engine == "vllm":
        engine = {"engine": "vllm", "model": smollm2_folder(), "vllm_max_model_len": 512}
    return {name: str(value) for name, value in (common | engine).items()}


class Fleet:
    """Places for workers. The first has a clock that can be stepped."""

    def __init__(self, options: Options, folder: Path, redis_port: int, more: dict[str, str] | None = None) -> None:
        settings = settings_of(options) | (more or {})
        self.clock = SteppedClock(folder / "worker.clock")
        self.workers = [
            ChaosWorker(f"w{n}", folder, Proxy(redis_port), settings, self.clock if n == 0 else None)
            for n in range(options.workers)
        ]

    async def start(self) -> None:
        """Start all, and wait until all are ready."""
        for worker in self.workers:
            await worker.proxy.start()
            await worker.start()
        await asyncio.gather(*(worker.came_up() for worker in self.workers))

    @property
    def proxies(self) -> list[Proxy]:
        return [worker.proxy for worker in self.workers]

    @asynccontextmanager
    async def victim(self, dice: random.Random, *, only: ChaosWorker | None = None) -> AsyncIterator[ChaosWorker]:
        """A ready worker that no other fault holds. Half of them stay unharmed: all being down is no fault of ours."""
        worker = await self._take(dice, only)
        try:
            yield worker
        finally:
            worker.busy = False

    async def _take(self, dice: random.Random, only: ChaosWorker | None) -> ChaosWorker:
        give_up = time.monotonic() + WAITS_S
        while True:
            whole = [worker for worker in self.workers if worker.ready and not worker.busy]
            fit = [worker for worker in whole if only in (None, worker)]
            if fit and (2 * (len(whole) - 1) >= len(self.workers) or len(self.workers) == 1):
                worker = dice.choice(fit)
                worker.busy = True
                return worker
            if time.monotonic() > give_up:
                raise RuntimeError("no worker is ready: " + ", ".join(map(_state, self.workers)))
            await asyncio.sleep(0.05)

    async def all_up(self) -> None:
        """Wait until every worker is ready again."""
        await asyncio.gather(*(worker.came_up() for worker in self.workers))

    async def close(self) -> None:
        """End all."""
        await asyncio.gather(*(worker.close() for worker in self.workers))
        for proxy in self.proxies:
            await proxy.close()


def _state(worker: ChaosWorker) -> str:
    return f"{worker.name} {'ready' if worker.ready else 'up' if worker.lives else 'down'}{' busy' * worker.busy}"
