"""How many requests a second one worker process takes and answers when the engine costs nothing.

Client, Redis and worker are three processes; the client keeps 256 (and 64) requests of 500 bytes under way and
counts a request when its Result is in its hands. Two bare unsafe loops are measured in turn with it.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import time

import bare_loop
import redis
from lab import HERE, own_redis, own_worker, show, spread, write

from busload import AsyncClient

STYLES = ("pipeline", "packed")
PROMPT = "x" * 460  # with the id and the field names, about 500 bytes of JSON


async def closed_loop(url: str, *, outstanding: int, seconds: float) -> float:
    """Requests per second, submit to result in the client's hands."""
    done = 0
    async with AsyncClient(url) as client:
        stop = time.perf_counter() + seconds

        async def caller() -> None:
            nonlocal done
            while time.perf_counter() < stop:
                result = await client.generate(prompt=PROMPT, max_tokens=16)
                assert result.status == "succeeded"
                done += 1

        began = time.perf_counter()
        await asyncio.gather(*(caller() for _ in range(outstanding)))
        return done / (time.perf_counter() - began)


def bare(url: str, style: str, *, outstanding: int, seconds: float) -> float:
    """A bare loop's requests per second."""
    process = subprocess.Popen([sys.executable, str(HERE / "bare_loop.py"), url, "32", style])
    try:
        return bare_loop.closed_loop(url, outstanding=outstanding, prompt=PROMPT, seconds=seconds)
    finally:
        process.kill()
        process.wait()


def compare(url: str, outstanding: int, repeats: int, seconds: float) -> dict[str, dict[str, float]]:
    """Busload and the bare loops in turn, `repeats` times; medians, ranges and ratios."""
    rates: dict[str, list[float]] = {"busload": [], **{style: [] for style in STYLES}}
    for _ in range(repeats):
        with own_worker(url, max_batch_size=32, max_wait_ms=10, log_level="WARNING"):
            rates["busload"].append(asyncio.run(closed_loop(url, outstanding=outstanding, seconds=seconds)))
        redis.Redis.from_url(url).flushall()
        for style in STYLES:
            rates[style].append(bare(url, style, outstanding=outstanding, seconds=seconds))
            redis.Redis.from_url(url).flushall()
    show(f"Busload, closed loop of {outstanding}", rates["busload"], "requests/s")
    for style in STYLES:
        show(f"bare loop, {style}", rates[style], "requests/s")
        rates[f"ratio to {style}"] = [ours / bare for ours, bare in zip(rates["busload"], rates[style], strict=True)]
        show(f"ratio to bare loop, {style}, pair by pair", rates[f"ratio to {style}"], "")
    return {name: spread(values) for name, values in rates.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--outstanding", type=int, nargs="+", default=[256, 64])
    args = parser.parse_args()
    figures = {}
    print("throughput, zero-cost engine, batch 32, 500-byte requests, one worker process")
    with own_redis() as url:
        for outstanding in args.outstanding:
            figures[str(outstanding)] = compare(url, outstanding, args.repeats, args.seconds)
    write("throughput", figures)


if __name__ == "__main__":
    main()
