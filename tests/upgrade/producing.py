"""Run under either version: a producer that asks until it gets SIGTERM, then waits for its last answers.

`producing.py URL QUEUE NAME` prints `sent ID`, `heard ID STATUS` and, at last, `end`; an error ends it.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
import sys

from busload import AsyncClient

AT_ONCE = 6
PAUSE_S = 0.05


async def main(url: str, queue: str, name: str) -> None:
    """Some with a priority, some with a time to live, most with neither."""
    stop, numbers = asyncio.Event(), itertools.count()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    extras: list[dict[str, object]] = [{}, {"priority": 2}, {}, {"ttl_s": 300.0}, {"metadata": {"n": 1}}]
    async with AsyncClient(url, queue=queue, patience_s=30) as client:

        async def ask() -> None:
            while not stop.is_set():
                number = next(numbers)
                request_id = f"{name}-{number}"
                print("sent", request_id, flush=True)
                fields = {"id": request_id, "prompt": "Hello", "max_tokens": 4} | extras[number % len(extras)]
                result = await client.generate(fields, timeout_s=60)
                print("heard", request_id, result.status, flush=True)
                await asyncio.sleep(PAUSE_S)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(AT_ONCE):
                tasks.create_task(ask())
    print("end", flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
