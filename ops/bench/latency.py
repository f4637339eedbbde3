"""What a lone request waits beyond the window: five requests a second, one at a time, the engine costs nothing.

The client counts from submit to the Result in its hands; the window is max_wait_ms. What is over it is Busload.
"""

from __future__ import annotations

import argparse
import asyncio
import time

from lab import own_redis, own_worker, show, spread, write

from busload import AsyncClient

WINDOW_MS = 10.0


async def latencies_ms(url: str, *, requests: int, per_s: float) -> list[float]:
    """Latencies, ms, of requests sent one by one at a steady pace."""
    found = []
    async with AsyncClient(url) as client:
        await client.generate(prompt="warm up", max_tokens=1)
        for _ in range(requests):
            await asyncio.sleep(1 / per_s)
            began = time.perf_counter()
            await client.generate(prompt="x" * 460, max_tokens=16)
            found.append((time.perf_counter() - began) * 1000)
    return found


def quantile(values: list[float], share: float) -> float:
    """The value below which `share` of the values lie."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--requests", type=int, default=25)
    args = parser.parse_args()
    p50, p99 = [], []
    with own_redis() as url, own_worker(url, max_wait_ms=WINDOW_MS, log_level="WARNING"):
        for _ in range(args.repeats):
            found = asyncio.run(latencies_ms(url, requests=args.requests, per_s=5))
            p50.append(quantile(found, 0.5) - WINDOW_MS)
            p99.append(quantile(found, 0.99) - WINDOW_MS)
    print(f"latency over the window of {WINDOW_MS:.0f} ms, 5 requests/s, zero-cost engine")
    show("p50 over the window", p50, "ms")
    show("p99 over the window", p99, "ms")
    write("latency", {"window_ms": WINDOW_MS, "p50_over_ms": spread(p50), "p99_over_ms": spread(p99)})


if __name__ == "__main__":
    main()
