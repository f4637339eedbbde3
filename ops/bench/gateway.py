"""Requests per second and latency of one gateway process in front of a fake engine that costs nothing.

    python ops/bench/gateway.py --seconds 10 --loops 64

The client is a process of its own: `--loops` callers, each on its own keep-alive connection, each sending its next
request when it has its answer. Everything shares this machine.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import lab

BODY = json.dumps(
    {"model": "fake", "messages": [{"role": "user", "content": "What is a bus?"}], "max_tokens": 16}
).encode()


@contextlib.contextmanager
def own_gateway(redis_url: str) -> Iterator[int]:
    """A `busload-gateway` process; yields its port."""
    with tempfile.TemporaryDirectory(prefix="busload-bench-") as folder:
        log = Path(folder) / "log"
        settings = {"BUSLOAD_GATEWAY_REDIS_URL": redis_url, "BUSLOAD_GATEWAY_PORT": "0"}
        with log.open("wb") as out:
            command = [sys.executable, "-m", "busload.gateway"]
            process = subprocess.Popen(command, env=os.environ | settings, stdout=out, stderr=out)
        try:
            while not (found := re.search(r"listening on http://[\d.]+:(\d+)", log.read_text())):
                if process.poll() is not None:
                    sys.exit("the gateway does not start:\n" + log.read_text()[-2000:])
                time.sleep(0.05)
            yield int(found.group(1))
        finally:
            process.terminate()
            process.wait(timeout=60)


class Caller(asyncio.Protocol):
    """One closed loop in as little Python as goes: it counts on answers with a Content-Length."""

    def __init__(self, port: int, until: float, latencies: list[float], ended: asyncio.Future[None]) -> None:
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        self._request = head.encode() + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
        self._until, self._latencies, self._ended = until, latencies, ended
        self._buffer = b""
        self._sent_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by its class
        self._send()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, found, body = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n", 1)[0])
        if len(body) < length:
            return
        if not head.startswith(b"HTTP/1.1 200"):
            self._fail(RuntimeError(self._buffer[:500].decode()))
            return
        now = time.perf_counter()
        self._latencies.append(now - self._sent_at)
        self._buffer = b""
        if now < self._until:
            self._send()
        else:
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if not self._ended.done():
            self._fail(error) if error else self._ended.set_result(None)

    def _send(self) -> None:
        self._sent_at = time.perf_counter()
        self._transport.write(self._request)

    def _fail(self, error: Exception) -> None:
        if not self._ended.done():
            self._ended.set_exception(error)
        self._transport.close()


async def drive(port: int, *, loops: int, seconds: float) -> list[float]:
    """The latencies of all answers, s."""
    loop = asyncio.get_running_loop()
    latencies: list[float] = []
    until = time.perf_counter() + seconds
    ends: list[asyncio.Future[None]] = []
    for _ in range(loops):
        ended: asyncio.Future[None] = loop.create_future()
        ends.append(ended)
        await loop.create_connection(lambda ended=ended: Caller(port, until, latencies, ended), "127.0.0.1", port)
    await asyncio.gather(*ends)
    return latencies


def one_run(port: int, *, loops: int, seconds: float) -> tuple[float, float, float]:
    """Requests per second, median and 99th percentile in ms, from a client process of its own."""
    command = [sys.executable, __file__, "--drive", str(port), "--loops", str(loops), "--seconds", str(seconds)]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=seconds + 60)
    rate, p50, p99 = json.loads(said.stdout)
    return rate, p50, p99


def client_process(port: int, *, loops: int, seconds: float) -> None:
    """Print what was measured, for the parent."""
    with contextlib.suppress(ImportError):
        import uvloop

        asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    began = time.perf_counter()
    latencies = asyncio.run(drive(port, loops=loops, seconds=seconds))
    took = time.perf_counter() - began
    cuts = statistics.quantiles(latencies, n=100)
    print(json.dumps([len(latencies) / took, cuts[49] * 1000, cuts[98] * 1000]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10, help="length of each run")
    parser.add_argument("--loops", type=int, default=64, help="callers at once")
    parser.add_argument("--runs", type=int, default=3, help="runs to take the median of")
    parser.add_argument("--drive", type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.drive:
        client_process(chosen.drive, loops=chosen.loops, seconds=chosen.seconds)
        return
    with (
        lab.own_redis() as url,
        lab.own_worker(url, max_batch_size=64, max_wait_ms=5, log_level="WARNING"),
        own_gateway(url) as port,
    ):
        one_run(port, loops=chosen.loops, seconds=min(2.0, chosen.seconds))
        runs = [one_run(port, loops=chosen.loops, seconds=chosen.seconds) for _ in range(chosen.runs)]
    rates, p50, p99 = (list(values) for values in zip(*runs, strict=True))
    print(f"One gateway process, {chosen.loops} callers at once, {chosen.seconds:g} s a run:")
    lab.show("requests answered", rates, "1/s")
    lab.show("latency, median", p50, "ms")
    lab.show("latency, 99th percentile", p99, "ms")
    lab.write("gateway", {"loops": chosen.loops, "requests_per_s": rates, "p50_ms": p50, "p99_ms": p99})


if __name__ == "__main__":
    main()
