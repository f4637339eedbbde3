"""What idle workers cost Redis: its processor time and commands each second, as they are and as if each were alone.

python ops/bench/idle.py                       20 and 100 workers, 3 runs
python ops/bench/idle.py --workers 50 --runs 1

The workers share one process here: their housekeeping and their looks at an empty queue are the real ones. `alone` is
what each does if it takes itself for the only one: all chores twice a second.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
from typing import Any

import lab
from redis.asyncio import Redis

from busload_shared.connection import open_redis
from busload_shared.queue import Queue
from busload_worker.boarding import Boarding
from busload_worker.choosing import Chooser
from busload_worker.housekeeping import Housekeeper
from busload_worker.lengths import Lengths
from busload_worker.settings import Settings
from busload_worker.vitals import Vitals
from busload_worker.weight import BatchLimit

SETTLE_S, MEASURE_S = 8.0, 10.0


class Alone(Vitals):
    """A worker that takes itself for the only one."""

    @property
    def workers(self) -> int:  # type: ignore[override]
        """One."""
        return 1

    @workers.setter
    def workers(self, _: int) -> None:
        """Whatever the heartbeat says."""


async def nothing() -> None:
    """No row runs, nothing was learned."""


def idle_worker(number: int, redis: Redis, blocking: Redis, vitals: Vitals, stop: asyncio.Event) -> list[Any]:
    """The tasks of one worker that has nothing to do."""
    settings = Settings(engine="fake", worker_name=f"idle-{number}")
    queue = Queue(redis, settings.queue)
    vitals.state = "ready"
    housekeeper = Housekeeper(queue, settings, vitals, quiet_s=0, unwanted=nothing, share=nothing)
    limit = BatchLimit(settings.max_batch_size)
    chooser = Chooser(queue, settings, vitals, Lengths())
    boarding = Boarding(queue, blocking, settings, vitals, limit=limit, chooser=chooser)
    return [asyncio.create_task(housekeeper.run()), asyncio.create_task(boarding.next_claim(stop))]


async def measure(url: str, workers: int, kind: type[Vitals]) -> dict[str, float]:
    """Milliseconds of Redis's processor time, and commands, each second and worker."""
    redis, blocking = (open_redis(url, max_connections=4 * workers + 10) for _ in range(2))
    stop = asyncio.Event()
    tasks: list[Any] = []
    for number in range(workers):
        tasks += idle_worker(number, redis, blocking, kind(), stop)
        await asyncio.sleep(0.5 / workers)
    await asyncio.sleep(SETTLE_S)
    before, began = await used(redis), asyncio.get_running_loop().time()
    await asyncio.sleep(MEASURE_S)
    after, took = await used(redis), asyncio.get_running_loop().time() - began
    stop.set()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await redis.flushdb()
    await redis.aclose()
    await blocking.aclose()
    each = took * workers
    return {"cpu_ms": (after[0] - before[0]) * 1000 / each, "commands": (after[1] - before[1]) / each}


async def used(redis: Redis) -> tuple[float, int]:
    """Processor seconds and commands since the server's start; a script counts as one."""
    info, calls = await redis.info("cpu"), await redis.info("commandstats")
    count = sum(calls.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("evalsha", "blmove", "mget"))
    return info["used_cpu_user"] + info["used_cpu_sys"], count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="*", default=[20, 100])
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    found: dict[str, list[dict[str, float]]] = {}
    with lab.own_redis() as url:
        for _ in range(args.runs):
            for workers in args.workers:
                for name, kind in (("alone", Alone), ("shared", Vitals)):
                    found.setdefault(f"{workers} workers, {name}", []).append(asyncio.run(measure(url, workers, kind)))
    for label, runs in found.items():
        lab.show(f"{label}: Redis, each", [run["cpu_ms"] for run in runs], "ms/s")
        lab.show(f"{label}: commands, each", [run["commands"] for run in runs], "/s")
    for workers in args.workers:
        pairs = zip(found[f"{workers} workers, alone"], found[f"{workers} workers, shared"], strict=True)
        ratios = [alone["cpu_ms"] / shared["cpu_ms"] for alone, shared in pairs]
        print(f"  {workers} workers cost {statistics.median(ratios):.1f} times less when they share the chores")
    lab.write("idle", found)


if __name__ == "__main__":
    main()
