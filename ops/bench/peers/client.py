"""The client process: one job on one server, told on the command line; what it saw goes out as a line of JSON.

    python client.py STYLE ADDRESS JOB     (JOB is JSON with a `kind`: closed, open or send)

It runs in the peer's virtual environment, on uvloop, whoever the server is. What lives when the warm-up is over is
frozen and no answer is kept, so that a garbage collection of the client does not look like a latency of the server.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import time
from array import array
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import uvloop

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "servers"))
from arrivals import arrivals
from handler import COUNTS
from wires import wire

PROMPT = "x" * 460  # about 500 bytes with its frame
TICKS = os.sysconf("SC_CLK_TCK")
START_S = 60.0
"""Longest wait for the first good answer."""


class Meter:
    """What has happened so far; the difference of two readings is a measurement."""

    def __init__(self, job: dict[str, Any], client: Any) -> None:
        self._pids, self._counts, self._client = job["pids"], Path(job["counts"]), client
        self.done = 0
        self.failed: dict[str, int] = {}

    def read(self) -> dict[str, float]:
        calls, items, _ = COUNTS.unpack(self._counts.read_bytes()[: COUNTS.size])
        return {
            "done": self.done,
            "failed": sum(self.failed.values()),
            "wall_s": time.perf_counter(),
            "client_cpu_s": time.process_time(),
            "server_cpu_s": sum(map(cpu_seconds, self._pids)),
            "batches": calls or getattr(self._client, "shares", 0.0),
            "items": items or self.done,
        }

    def since(self, begun: dict[str, float]) -> dict[str, Any]:
        now = self.read()
        return {name: now[name] - begun[name] for name in now} | {"errors": self.failed}

    def told(self, ok: bool, body: bytes = b"") -> None:
        if ok:
            self.done += 1
        else:
            text = body.decode(errors="replace")[:80]
            self.failed[text] = self.failed.get(text, 0) + 1


def cpu_seconds(pid: int) -> float:
    """Seconds of processor time of a living process, 0 for one that is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS


async def closed(client: Any, job: dict[str, Any]) -> dict[str, Any]:
    """So many requests under way for so long; what comes in the first `warm_s` is not counted."""
    meter = Meter(job, client)
    stop = time.perf_counter() + job["warm_s"] + job["seconds"]
    if hasattr(client, "connect"):
        loops = [spin(client, meter, stop) for _ in range(job["outstanding"])]
    else:
        loops = [call_until(client, meter, stop) for _ in range(job["outstanding"])]
    running = asyncio.gather(*loops)
    await asyncio.sleep(job["warm_s"])
    gc.freeze()
    begun = meter.read()
    await asyncio.sleep(max(0.0, stop - time.perf_counter()))
    seen = meter.since(begun)
    await running
    return seen


async def call_until(client: Any, meter: Meter, stop: float) -> None:
    """One caller: the next request when the last is answered."""
    while time.perf_counter() < stop:
        try:
            await client.call(PROMPT)
            meter.told(True)
        except Exception as error:
            meter.told(False, str(error).encode())
            await asyncio.sleep(0.01)


async def spin(client: Any, meter: Meter, stop: float) -> None:
    """The same over a lean wire, without a task for each: the next request is written as the last one is read."""
    connection = await client.connect()
    message = client.message(PROMPT)
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def then(ok: bool, body: bytes) -> None:
        meter.told(ok, body)
        if connection.lost or time.perf_counter() >= stop:
            over.done() or over.set_result(None)
        elif ok:
            connection.send(message)
        else:
            asyncio.get_running_loop().call_later(0.01, connection.send, message)

    connection.then = then
    connection.send(message)
    await over
    connection.close()


async def open_loop(client: Any, job: dict[str, Any]) -> dict[str, Any]:
    """Requests at times drawn beforehand, whatever the answers do; a latency counts from the time drawn.

    The answers to those drawn in the first `warm_s` are not counted.
    """
    meter, latencies, begun = Meter(job, client), array("d"), None
    tasks: set[asyncio.Task[None]] = set()
    start, until_s = time.perf_counter(), job["warm_s"] + job["seconds"]
    for due_s in arrivals(seed=job["seed"], rate=job["rate"], spread=job["spread"], until_s=until_s):
        await asyncio.sleep(max(0.0, start + due_s - time.perf_counter()))
        if begun is None and due_s >= job["warm_s"]:
            gc.freeze()
            begun = meter.read()
        task = asyncio.create_task(timed(client, meter, start + due_s, latencies if begun else None))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    return meter.since(begun or meter.read()) | {"latencies_ms": latencies.tolist()}


async def timed(client: Any, meter: Meter, due: float, latencies: array[float] | None) -> None:
    try:
        await client.call(PROMPT)
    except Exception as error:
        meter.told(False, str(error).encode())
        return
    if latencies is not None:
        latencies.append((time.perf_counter() - due) * 1000)
    meter.told(True)


async def send(client: Any, job: dict[str, Any]) -> dict[str, Any]:
    """Send prompts together, after a line on standard input; what each of them got, and when."""
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    began = time.perf_counter()

    async def outcome(prompt: str) -> tuple[str, float]:
        try:
            async with asyncio.timeout(job["limit_s"]):
                await client.call(prompt)
            told = "ok"
        except TimeoutError:
            told = f"nothing within {job['limit_s']:.0f} s"
        except Exception as error:
            told = f"{type(error).__name__}: {error}"[:200]
        return told, time.perf_counter() - began

    tasks = [asyncio.create_task(outcome(prompt)) for prompt in job["prompts"]]
    await asyncio.sleep(0.3)
    print("sent", flush=True)
    return {"outcomes": await asyncio.gather(*tasks)}


async def until_served(client: Any) -> None:
    """The first good answer: a server may accept connections, and drop them, before its worker is there."""
    until = time.perf_counter() + START_S
    while True:
        try:
            async with asyncio.timeout(START_S):
                return await client.call("warm up")
        except Exception:
            if time.perf_counter() > until:
                raise
            await asyncio.sleep(0.1)


async def main(style: str, address: str, job: dict[str, Any]) -> None:
    kinds: dict[str, Callable[[Any, dict[str, Any]], Awaitable[dict[str, Any]]]]
    kinds = {"closed": closed, "open": open_loop, "send": send}
    client = wire(style, address)
    await client.open()
    await until_served(client)
    gc.collect()
    gc.freeze()
    print(json.dumps(await kinds[job["kind"]](client, job)), flush=True)
    await client.close()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))
