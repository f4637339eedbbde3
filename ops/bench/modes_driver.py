"""Sends a run's requests to one mode's worker through the client, and gathers what came of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from modes_engine import Continuous, Mode
from modes_figures import Served
from modes_requests import Hint, Job, Law, jobs

from busload import AsyncClient
from busload_shared.connection import open_redis
from busload_shared.queue import Queue
from busload_shared.result import Result
from busload_worker.lengths import KEYS, MEMORY, Moments

HISTORY = 4000
"""Answers that the queue has learned from before anything is measured."""

LONGEST_S = 600.0


def all_at_once(url: str, mode: Mode, work: Sequence[Job], *, run: str, hint: Hint = "none") -> list[Served]:
    """All wait before the first is taken, or nearly so."""

    async def serve() -> list[Served]:
        requests = {f"{run}-{job.place}": job for job in work}
        served = []
        async with AsyncClient(url, queue=mode.queue) as client:
            began = time.perf_counter()
            await client.submit_many([job.request(run, hint) for job in work])
            async for result in client.as_completed(list(requests), timeout_s=LONGEST_S):
                at = time.perf_counter() - began
                served.append(_served(requests[result.id], result, latency_s=at, ended_s=at))
        return served

    return asyncio.run(serve())


def kept_waiting(
    url: str, mode: Mode, work: Sequence[Job], outstanding: int, *, run: str, hint: Hint = "none"
) -> list[Served]:
    """So many are always under way; when one is answered the next is sent, while there are any."""

    async def serve() -> list[Served]:
        left, served = iter(work), []
        async with AsyncClient(url, queue=mode.queue) as client:
            began = time.perf_counter()

            async def caller() -> None:
                for job in left:
                    sent = time.perf_counter()
                    result = await client.generate(job.request(run, hint), timeout_s=LONGEST_S)
                    at = time.perf_counter()
                    served.append(_served(job, result, latency_s=at - sent, ended_s=at - began))

            await asyncio.gather(*(caller() for _ in range(outstanding)))
        return served

    return asyncio.run(serve())


def as_they_come(
    url: str, mode: Mode, work: Sequence[Job], at_s: Sequence[float], *, run: str, hint: Hint = "none"
) -> list[Served]:
    """Each at its time, whatever became of those before. Latency counts from that time."""

    async def one(client: AsyncClient, job: Job, at: float, began: float) -> Served:
        await asyncio.sleep(max(0.0, began + at - time.perf_counter()))
        result = await client.generate(job.request(run, hint), timeout_s=LONGEST_S)
        ended = time.perf_counter() - began
        return _served(job, result, latency_s=ended - at, ended_s=ended)

    async def serve() -> list[Served]:
        async with AsyncClient(url, queue=mode.queue) as client:
            await client.status("nobody")  # connects
            began = time.perf_counter()
            return await asyncio.gather(*(one(client, *pair, began) for pair in zip(work, at_s, strict=True)))

    return asyncio.run(serve())


def continuously(engine: Continuous, work: Sequence[Job]) -> list[Served]:
    """Through bare vLLM, all in one call."""
    answer = engine.generate([job.request("bare", "oracle") for job in work])
    assert answer["tokens"] == [job.tokens for job in work], "bare vLLM made answers of other lengths"
    ends = answer["latencies_s"]
    served = [
        Served(job.place, job.tokens, latency_s=end, ended_s=end, run_ms=end * 1000)
        for job, end in zip(work, ends, strict=True)
    ]
    last = max(range(len(served)), key=lambda at: ends[at])
    row = served[last]  # the call returns when the last has ended, and a little later
    served[last] = Served(row.place, row.tokens, row.latency_s, answer["seconds"], run_ms=row.run_ms)
    return served


def _served(job: Job, result: Result, *, latency_s: float, ended_s: float) -> Served:
    assert result.status == "succeeded", result.error
    batch, timing, usage = result.batch, result.timing, result.usage
    assert batch is not None
    assert timing is not None
    assert usage is not None
    assert usage.completion_tokens == job.tokens, f"{result.id}: {usage.completion_tokens} tokens, not {job.tokens}"
    return Served(
        job.place,
        job.tokens,
        latency_s=latency_s,
        ended_s=ended_s,
        batch=batch.id,
        size=batch.size,
        waited_ms=timing.waited_ms,
        run_ms=timing.run_ms,
        held_ms=timing.held_ms,
        gap_ms=timing.proof.gap_ms if timing.proof else None,
        text=result.outputs[0].text,
    )


def teach(url: str, mode: Mode, law: Law, *, seed: int) -> None:
    """Put into the queue's table what it would have learned from many answers by this law, in this order."""
    hints: tuple[Hint, ...] = ("noisy", "learned")
    seen: dict[str, list[float]] = {}
    for job in jobs(law, HISTORY, seed):
        for hint in hints:
            seen.setdefault(f"route:{job.route(hint)}", []).append(float(job.tokens))
    learned = {}
    for key, lengths in seen.items():
        sums = Moments()
        for length in lengths:
            sums = sums.then(Moments.of([length]))
        learned[key] = sums

    async def put() -> None:
        redis = open_redis(url)
        await Queue(redis, mode.queue).learn(learned, kept_share=MEMORY, most_keys=KEYS, ttl_s=86_400)
        await redis.aclose()

    asyncio.run(put())
