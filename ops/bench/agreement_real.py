"""A scenario on the real system: a worker process with the fake engine, a client that sends at the scenario's times."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agreement_scenarios import Case
from lab import own_worker

from busload import AsyncClient
from busload_shared.result import Result
from busload_worker.simulation import Learned, Outcome
from busload_worker.simulation.outcome import Tally

HARDLY_ANY_MS = 0.01
"""What a worker is told for no wait."""

BEGIN_S = 0.2

WARM_UP = 0.1
"""Share of the requests whose latencies do not count: until eight batches ran a worker knows no curve."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One request's: the n-th that came, its length, its result, and what the client saw, ms."""

    number: int
    length: int
    result: Result
    latency_ms: float


async def serve(url: str, case: Case, queue: str, *, together: asyncio.Barrier) -> tuple[Outcome, float]:
    """Serve all its requests on a queue and by a worker of its own; how much longer batches took than the curve says, a
    share: what the machine's other work does to all figures."""
    async with _worker(url, case, queue), AsyncClient(url, queue=queue) as client:
        sender = _Sender(client, case)
        await together.wait()
        await (sender.closed_loop() if case.times_ms is None else sender.open_loop(case.times_ms))
        await together.wait()
    return outcome_of(case, sender.answers), late(case, sender.answers)


@contextlib.asynccontextmanager
async def _worker(url: str, case: Case, queue: str) -> AsyncIterator[None]:
    """Its start and end block, so they happen in a thread: other scenarios go on."""
    s = case.scenario
    held = own_worker(
        url,
        queue=queue,
        worker_name=queue,
        max_batch_size=s.size,
        max_wait_ms=s.wait_ms or HARDLY_ANY_MS,
        wait_cap_ms=600_000 if s.cap_ms is None else s.cap_ms,
        order=s.order,
        release=s.release,
        fake_overhead_ms=s.curve.overhead_ms,
        fake_per_prompt_token_ms=s.curve.prompt_ms,
        fake_per_token_ms=s.curve.step_ms,
        fake_per_row_token_ms=s.curve.token_ms,
        log_level="WARNING",
    )
    await asyncio.to_thread(held.__enter__)
    try:
        yield
    finally:
        await asyncio.to_thread(held.__exit__, None, None, None)


class _Sender:
    """Sends the n-th length at the n-th arrival, whichever way arrivals come about."""

    def __init__(self, client: AsyncClient, case: Case) -> None:
        self._client, self._case = client, case
        self._lengths = enumerate(case.lengths.rows)
        self.answers: list[Answer] = []

    async def open_loop(self, times_ms: Sequence[float]) -> None:
        """At the times that were drawn."""
        began = time.perf_counter() + BEGIN_S
        async with asyncio.TaskGroup() as group:
            for at_ms in times_ms:
                await asyncio.sleep(max(0.0, began + at_ms / 1000 - time.perf_counter()))
                group.create_task(self._ask(*next(self._lengths)))

    async def closed_loop(self) -> None:
        """Each client asks, thinks, and asks again."""
        law: Any = self._case.scenario.arrivals
        async with asyncio.TaskGroup() as group:
            for _ in range(law.clients):
                group.create_task(self._client_of_a_loop(law.think_ms / 1000))

    async def _client_of_a_loop(self, think_s: float) -> None:
        await asyncio.sleep(think_s)
        for number, row in self._lengths:
            await self._ask(number, row)
            await asyncio.sleep(think_s)

    async def _ask(self, number: int, row: tuple[str, int]) -> None:
        began = time.perf_counter()
        result = await self._client.generate(_request(self._case, number, row))
        assert result.status == "succeeded", result.error
        self.answers.append(Answer(number, row[1], result, (time.perf_counter() - began) * 1000))


def _request(case: Case, number: int, row: tuple[str, int]) -> dict[str, Any]:
    """One that can only end at its limit is one whose length is known: that is the oracle."""
    route, length = row
    request = {"id": f"r{number}", "prompt": "x" * (4 * case.scenario.prompt_tokens)}
    if isinstance(case.scenario.predictions, Learned):
        most = case.scenario.max_tokens
        return {**request, "route": route, "max_tokens": most, "metadata": {"fake_tokens": length}}
    return {**request, "max_tokens": length, "ignore_eos": True}


def outcome_of(case: Case, answers: Sequence[Answer]) -> Outcome:
    """Summed up as the simulator sums up its own."""
    counted, whole = (_tallied(case, answers, int(w * case.scenario.requests)) for w in (WARM_UP, 0.0))
    return with_whole(counted, whole)


def late(case: Case, answers: Sequence[Answer]) -> float:
    """The engine sleeps the curve, so that a row ends later than it says is the machine's doing."""
    took = wanted = 0.0
    for rows in _by_batch(answers):
        lengths = [answer.length for answer in rows]
        prompts = case.scenario.prompt_tokens * len(rows)
        wanted += case.scenario.curve.predict_ms(prompt_tokens=prompts, longest=max(lengths), new_tokens=sum(lengths))
        took += max(answer.result.timing.run_ms for answer in rows if answer.result.timing is not None)
    return took / wanted - 1


def _by_batch(answers: Sequence[Answer]) -> Iterable[list[Answer]]:
    batches = defaultdict(list)
    for answer in answers:
        assert answer.result.batch is not None
        batches[answer.result.batch.id].append(answer)
    return batches.values()


def with_whole(counted: Outcome, whole: Outcome) -> Outcome:
    """Latencies of those that count; batches and throughput of all, or it would matter in which order they ride."""
    return replace(counted, requests=whole.requests, batches=whole.batches, per_s=whole.per_s, fill=whole.fill)


def _tallied(case: Case, answers: Sequence[Answer], uncounted: int) -> Outcome:
    tally = Tally()
    for rows in _by_batch(answers):
        timings = [answer.result.timing for answer in rows if answer.result.timing is not None]
        began = max(timing.started_ms or 0.0 for timing in timings)
        tally.batch(began, max(timing.run_ms for timing in timings), [answer.length for answer in rows])
        for answer, timing in zip(rows, timings, strict=True):
            if answer.number >= uncounted:
                tally.row(answer.latency_ms, timing.waited_ms, timing.held_ms)
    return tally.outcome(size=case.scenario.size, workers=case.scenario.workers)
