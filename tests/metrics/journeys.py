"""Things that happen to a worker, and the series that each of them moves. Together they move every one."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from tests.waiting import wait_until
from tests.worker.conftest import Depot

from busload_shared.curve import ServiceCurve
from busload_shared.replies import NotYet
from busload_worker.engines.protocol import BatchDone
from busload_worker.worker import Worker

Journey = Callable[[Depot, Callable[[Worker], None]], Awaitable[None]]
JOURNEYS: list[tuple[Journey, set[str]]] = []
"""Each with the series it moves. It is handed a `watch` to call with its worker, before anything happens."""

CORE = "tests.metrics.telling_core:TellingCore"


def moves(*series: str) -> Callable[[Journey], Journey]:
    """Names are without the prefix `busload_worker_`."""

    def keep(journey: Journey) -> Journey:
        JOURNEYS.append((journey, {"busload_worker_" + one for one in series}))
        return journey

    return keep


def request(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "prompt": f"prompt of {name}", "max_tokens": 4} | more


async def until(worker: Worker, true: Callable[[Worker], object], what: str) -> None:
    async def so() -> bool:
        return bool(true(worker))

    await wait_until(so, what=what)


@moves(
    "batches_total{full}", "batches_total{timeout}", "batch_rows_total", "batch_fill_ratio_count",
    "batch_fill_ratio_sum", "batch_weight_tokens_count", "batch_weight_tokens_sum", "wait_seconds_count",
    "wait_seconds_sum", "run_seconds_count", "run_seconds_sum", "tokens_total{prompt}", "tokens_total{completion}",
    "results_total{succeeded}", "deliver_seconds_count", "deliver_seconds_sum", "engine_seconds_total{busy}",
    "engine_seconds_total{idle}", "engine_seconds_total{down}", "rows_per_second", "running_rows", "state{ready}",
    "state{starting}", "ready",
)  # fmt: skip
async def two_batches(depot: Depot, watch: Callable[[Worker], None]) -> None:
    worker = await depot.start(max_batch_size=2, max_wait_ms=60, fake_overhead_ms=30)
    watch(worker)
    await depot.push(*[request(name) for name in "abc"])
    await until(worker, lambda w: w.vitals.batch is not None, "it runs")
    watch(worker)
    await depot.results(*"abc")
    await until(worker, lambda w: w.vitals.batches_done == 2, "both are over")


@moves(
    "rejects_total{invalid_request}", "rejects_total{prompt_too_long}", "rejects_total{engine_error}",
    "rejects_total{cancelled}", "rejects_total{expired}", "results_total{failed}", "results_total{cancelled}",
    "results_total{expired}", "dead_letters_total", "proofs_broken_total",
)  # fmt: skip
async def those_that_are_not_answered_well(depot: Depot, watch: Callable[[Worker], None]) -> None:
    late = json.dumps(request("late", ttl_s=0.001)).encode()
    await depot.queue.submit([("late", late)], limit=10)
    await depot.push(request("gone"))
    await depot.redis.set(depot.queue.keys.cancel("gone"), "1", px=60_000)
    worker = await depot.start(engine=CORE)
    watch(worker)
    refused = [request(code, metadata={"code": code}) for code in ("prompt_too_long", "engine_error")]
    await depot.push(b'{"id":"wrong"}', *refused, request("apart", metadata={"apart": True}))
    await depot.results("wrong", "late", "gone", "prompt_too_long", "engine_error", "apart")
    await until(worker, lambda w: w.vitals.proofs_broken, "the broken proof is counted")


@moves(
    "batches_total{retry}", "rejects_total{poison}", "suspects_total", "engine_deaths_total", "engine_restarts_total",
    "state{restarting}",
)  # fmt: skip
async def a_killer(depot: Depot, watch: Callable[[Worker], None]) -> None:
    worker = await depot.start(max_batch_size=2)
    await depot.push(request("killer", metadata={"fake": "crash"}))
    await until(worker, lambda w: w.vitals.state == "restarting", "its engine is gone")
    watch(worker)
    await depot.result("killer")


@moves("out_of_memory_total", "rejects_total{too_heavy}")
async def one_too_heavy(depot: Depot, watch: Callable[[Worker], None]) -> None:
    watch(await depot.start())
    await depot.push(request("heavy", metadata={"fake": "oom"}))
    await depot.result("heavy")


@moves("held_seconds_count", "held_seconds_sum")
async def held_to_the_end(depot: Depot, watch: Callable[[Worker], None]) -> None:
    watch(await depot.start(release="batch", max_batch_size=2, max_wait_ms=5000, fake_per_token_ms=2))
    await depot.push(request("short"), request("long", max_tokens=20))
    await depot.results("short", "long")


@moves("lease_renewals_total", "lease_losses_total")
async def a_lease_kept_and_lost(depot: Depot, watch: Callable[[Worker], None]) -> None:
    worker = await depot.start(lease_s=0.5, fake_per_token_ms=50)
    watch(worker)
    await depot.push(request("a", max_tokens=1000))
    await until(worker, lambda w: w.vitals.meter.renewals, "it is renewed")
    await depot.redis.delete(depot.queue.keys.leases)
    await until(worker, lambda w: w.vitals.leases_lost, "the loss is known")


@moves("reclaims_total", "suspects_total")
async def another_falls_silent(depot: Depot, watch: Callable[[Worker], None]) -> None:
    await depot.push(request("a"))
    await depot.queue.claim("ghost", worker="ghost", max_batch_size=1, max_wait_ms=0.001, lease_ms=1, drain=True)
    watch(await depot.start())
    await depot.result("a")


@moves("results_refused_total")
async def answered_by_somebody_else(depot: Depot, watch: Callable[[Worker], None]) -> None:
    worker = await depot.start(fake_overhead_ms=300)
    watch(worker)
    await depot.push(request("a"))
    await until(worker, lambda w: w.vitals.batch is not None, "it runs")
    await depot.redis.set(depot.queue.keys.result("a"), "{}", px=60_000)
    await until(worker, lambda w: w.vitals.meter.results_refused, "the refusal is counted")


@moves("handed_back_total", "state{draining}")
async def a_stop_without_time(depot: Depot, watch: Callable[[Worker], None]) -> None:
    worker = await depot.start(drain_s=0, fake_overhead_ms=60_000)
    watch(worker)
    await depot.push(request("a"))
    await until(worker, lambda w: w.vitals.batch is not None, "it runs")
    await depot.stop_workers()


@moves("state{broken}")
async def a_bad_machine(depot: Depot, watch: Callable[[Worker], None]) -> None:
    worker = await depot.start(bad_machine_after=1)
    watch(worker)
    await worker._keeper.engine.kill()
    await depot.push(request("a"))
    await until(worker, lambda w: w.broken, "the worker gives up")


@moves("wait_decisions_total{wait}", "wait_decisions_total{leave}")
async def a_wait_that_is_learned(depot: Depot, watch: Callable[[Worker], None]) -> None:
    worker = await depot.start(max_wait_ms="auto", fake_overhead_ms=1)
    watch(worker)
    await depot.push(request("first"))  # nothing is known yet: it leaves
    await until(worker, lambda w: w.vitals.batches_done == 1, "it is over")
    wait = worker._learner.wait
    assert wait is not None
    wait.times.learn(ServiceCurve(overhead_ms=500, prompt_ms=1, step_ms=2, token_ms=0.5), [(4, 4)] * 8)
    now_ms = worker.vitals.looked_ms or 0.0
    for _ in range(60):  # four together, 5 ms apart, every ten seconds
        now_ms += 10_000
        wait.hazards.observe([now_ms + 5 * k for k in range(4)], None, gapless=True)
    look = NotYet(now_ms=now_ms + 10_000, depth=1, due_in_ms=500.0, newest_ms=2.0)
    worker._boarding._leaves_now(look)


@moves(
    "curve_seconds{overhead}", "curve_seconds{prompt_token}", "curve_seconds{step}", "curve_seconds{row_token}",
    "curve_r_squared",
)  # fmt: skip
async def a_curve_that_is_learned(depot: Depot, watch: Callable[[Worker], None]) -> None:
    worker = await depot.start()
    watch(worker)
    for n in range(1, 17):
        prompt, longest, new = 10 * n % 70 + 1, 7 * n % 30 + 1, 7 * n % 30 + 1 + 11 * n % 90
        ran_ms = 500 + prompt + 2 * longest + 0.5 * new
        done = BatchDone(ran_ms=ran_ms, prompt_tokens=prompt, completion_tokens=new)
        worker.vitals.learn(done, longest=longest, pace_ms=1.0)
