"""The simulator takes the very decisions of the real parts: at the same moments the same rows leave.

The worker's parts work on a real Redis whose clock is held and moved from event to event: no time passes, and both
worlds must agree to the last row.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from tests.conftest import START_MS

from busload_shared.curve import ServiceCurve
from busload_shared.queue import Queue
from busload_shared.replies import Claim, Delivery, NotYet
from busload_shared.request import parse_request
from busload_shared.result import Usage
from busload_worker.auto_wait import AutoWait
from busload_worker.choosing import Chooser
from busload_worker.curve_fit import CurveFit
from busload_worker.engines.protocol import RowDone
from busload_worker.lengths import Lengths
from busload_worker.settings import Settings
from busload_worker.simulation import (
    Arrivals,
    Bursts,
    ClosedLoop,
    Constant,
    LengthLaw,
    Lognormal,
    Poisson,
    Scenario,
    bimodal,
)
from busload_worker.simulation.fleet import Fleet, Job
from busload_worker.simulation.riding import row_ends_ms
from busload_worker.vitals import Vitals

CURVE = ServiceCurve(overhead_ms=40.0, prompt_ms=0.5, step_ms=2.0, token_ms=0.25)
PROMPT = 8
NEVER_MS = 1e9
SOON_MS = 0.001
"""As fine as a stamp in Redis is."""

Departure = tuple[float, tuple[int, ...]]
"""When a batch left, ms from the beginning, and who rode: the n-th to come is n."""


class Watched(Fleet):
    """The simulator, and who rode when."""

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(scenario)
        self.departures: list[Departure] = []

    def _count(self, now: float, jobs: list[Job], ends: list[float], took: float) -> None:
        self.departures.append((round(now, 3), tuple(sorted(job.number for job in jobs))))
        super()._count(now, jobs, ends, took)


class Known(CurveFit):
    """A fit that has found the curve."""

    def curve(self) -> ServiceCurve:
        return CURVE


class HeldWorker:
    """The parts of a worker that decide, one engine that takes what the curve says, and a clock that is held."""

    def __init__(self, queue: Queue, scenario: Scenario) -> None:
        self._queue, self._s = queue, scenario
        settings = Settings(max_batch_size=scenario.size, order=scenario.order)
        self._vitals = Vitals(fit=Known())
        self._chooser = Chooser(queue, settings, self._vitals, Lengths())
        self._auto = AutoWait(cap_ms=NEVER_MS) if scenario.wait_ms == "auto" else None
        self.free_ms: float | None = 0.0
        self.look_ms = math.inf
        self.departures: list[Departure] = []

    async def look(self, now_ms: float) -> list[float]:
        """Look at the queue now; when the rows of a batch that leaves end, ms from the beginning, or nothing."""
        self._queue.now_ms = START_MS + now_ms
        wait_ms = NEVER_MS if self._s.wait_ms == "auto" else self._s.wait_ms
        look = await self._claim(wait_ms)
        self.look_ms = math.inf
        if isinstance(look, NotYet) and look.depth and self._auto is not None:
            decision = self._auto.decide(look, size=self._s.size)
            if decision.wait:
                self.look_ms = now_ms + max(SOON_MS, decision.look_in_ms)
                return []
            look = await self._claim(0.0)
        if isinstance(look, NotYet):
            self.look_ms = math.inf if look.due_in_ms is None else now_ms + max(SOON_MS, look.due_in_ms)
            return []
        return await self._ride(look, now_ms)

    async def _claim(self, wait_ms: float) -> Claim | NotYet:
        s, now = self._s, self._queue.now_ms
        assert now is not None
        self._vitals.looked_ms = now
        return await self._queue.claim(
            f"b{len(self.departures)}",
            worker="w",
            max_batch_size=s.size,
            max_wait_ms=wait_ms,
            lease_ms=1e9,
            choice=await self._chooser.choose(size=s.size, now_ms=now),
        )

    async def _ride(self, claim: Claim, now_ms: float) -> list[float]:
        numbers = [int(seat.element.id) for seat in claim.seats]
        self.departures.append((round(now_ms, 3), tuple(sorted(numbers))))
        lengths = [parse_request(seat.element.payload).max_tokens for seat in claim.seats]
        if self._auto is not None:
            self._auto.boarded(claim, alone=self._s.order == "fifo")
            for index, length in enumerate(lengths):
                usage = Usage(prompt_tokens=PROMPT, completion_tokens=length, total_tokens=PROMPT + length)
                self._auto.row(RowDone(index=index, outputs=(), usage=usage, ran_ms=1.0))
        answers = [Delivery(seat.position, seat.element.id, "succeeded", "", b"{}") for seat in claim.seats]
        await self._queue.deliver(claim.batch, answers, ttl_s=60)
        ends = [now_ms + ms for ms in row_ends_ms(CURVE, prompt_tokens=PROMPT * len(lengths), lengths=lengths)]
        self.free_ms = max(ends)
        took_ms = self.free_ms - now_ms
        mean = self._vitals.mean_batch_ms
        self._vitals.mean_batch_ms = took_ms if mean is None else 0.9 * mean + 0.1 * took_ms
        return ends

    def ended(self) -> None:
        """The engine is free again."""
        assert self.free_ms is not None
        if self._auto is not None and self.departures:
            self._auto.ended(START_MS + self.free_ms, CURVE)
        self.free_ms = None


async def departures_of_the_parts(queue: Queue, scenario: Scenario) -> list[Departure]:
    """From event to event: somebody comes, the engine is free, the next look is due. Who comes, and how long an answer
    is, is drawn as the simulator draws it."""
    drawn, worker, came = Watched(scenario), HeldWorker(queue, scenario), 0
    source = drawn._source
    while True:
        busy = worker.free_ms is not None
        other = worker.free_ms if worker.free_ms is not None else worker.look_ms
        now = min(source.next_ms(), other)
        if now == math.inf:
            return worker.departures
        if source.next_ms() <= other:
            queue.now_ms = START_MS + source.pop()
            _, length = scenario.lengths.draw(drawn._rng_lengths)
            await queue.submit([(str(came), _payload(came, length))], limit=10_000)
            came += 1
        elif busy:
            worker.ended()
        if worker.free_ms is None:
            for end in await worker.look(now):
                source.claimed(now)
                source.answered(end)


def _payload(number: int, length: int) -> bytes:
    request = {"id": str(number), "prompt": "x" * 4 * PROMPT, "max_tokens": length, "ignore_eos": True}
    return json.dumps(request).encode()


SPREAD = Lognormal(30, 0.8, 400)
FEW = Scenario(CURVE, Poisson(10), SPREAD, size=8, prompt_tokens=PROMPT, requests=250, warm_up=0.0)
CLUMPS, CLIENTS = Bursts(12, 6, 30), ClosedLoop(10, 9.3)


@pytest.mark.parametrize(
    "scenario",
    [
        FEW,
        replace(FEW, wait_ms=50.0),
        replace(FEW, wait_ms=300.0, size=4, arrivals=Poisson(25)),
        replace(FEW, wait_ms=50.0, size=64, arrivals=CLUMPS),
        replace(FEW, arrivals=CLIENTS),
        replace(FEW, arrivals=ClosedLoop(40, 1.7, exact=True)),
    ],
    ids=["no-wait", "wait", "small-batches", "large-batches", "clients", "backlog"],
)
async def test_by_order_of_arrival_the_same_rows_leave_at_the_same_moments(
    any_queue: Queue, scenario: Scenario
) -> None:
    await both(any_queue, scenario)


@pytest.mark.parametrize("arrivals", [ClosedLoop(40, 1.7, exact=True), Poisson(30)], ids=["backlog", "poisson"])
@pytest.mark.parametrize("lengths", [SPREAD, bimodal(10, 120, 0.2)], ids=["lognormal", "bimodal"])
async def test_by_length_the_same_rows_leave_together(any_queue: Queue, arrivals: Arrivals, lengths: LengthLaw) -> None:
    await both(any_queue, replace(FEW, arrivals=arrivals, lengths=lengths, order="length"))


@pytest.mark.parametrize("arrivals", [Poisson(10), CLUMPS, CLIENTS], ids=["poisson", "fan-out", "clients"])
async def test_the_learned_wait_decides_the_same(any_queue: Queue, arrivals: Arrivals) -> None:
    departures = await both(any_queue, replace(FEW, arrivals=arrivals, lengths=Constant(30), wait_ms="auto", size=16))
    if not isinstance(arrivals, Poisson):
        at_once = Watched(replace(FEW, arrivals=arrivals, lengths=Constant(30), size=16))
        at_once.run()
        assert len(departures) < 0.9 * len(at_once.departures), "it did wait for some"


async def both(queue: Queue, scenario: Scenario) -> list[Departure]:
    """Departures in both worlds; they are the same."""
    simulated = Watched(scenario)
    simulated.run()
    real = await departures_of_the_parts(queue, scenario)
    assert [rows for _, rows in real] == [rows for _, rows in simulated.departures]
    assert [at for at, _ in real] == pytest.approx([at for at, _ in simulated.departures], abs=0.01)
    return real
