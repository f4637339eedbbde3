"""Redis at maxmemory: newcomers are refused, and everything that makes room goes on."""

from __future__ import annotations

import pytest
from tests.queue.steps import (
    board,
    bury,
    content,
    deliver,
    ids,
    later,
    look,
    push,
    result,
    states,
    submit,
)  # fmt: skip
from tests.redis_servers import Server

from busload_shared.errors import BusloadUnavailable
from busload_shared.queue import Queue
from busload_shared.replies import Claim, WorkerInfo


async def test_a_submission_is_refused_and_says_why(real_queue: Queue, server: Server) -> None:
    """Q19."""
    await submit(real_queue, "a")
    server.fill()
    before = await content(real_queue)
    with pytest.raises(BusloadUnavailable, match="maxmemory"):
        await submit(real_queue, "b")
    assert await content(real_queue) == before
    assert await submit(real_queue, "a") == ("waiting",)


async def test_what_waits_is_claimed_and_answered(real_queue: Queue, server: Server) -> None:
    await submit(real_queue, *"abc")
    server.fill()
    assert await deliver(real_queue, await board(real_queue, "b1")) == [True] * 3
    assert await states(real_queue, *"abc") == ["answered"] * 3


async def test_scripts_that_redis_forgot_are_loaded_all_the_same(real_queue: Queue, server: Server) -> None:
    await submit(real_queue, "a")
    server.fill()
    await real_queue.redis.script_flush()
    assert await deliver(real_queue, await board(real_queue, "b1")) == [True]


async def test_raw_elements_cannot_be_stamped_and_are_due_at_once(real_queue: Queue, server: Server) -> None:
    await push(real_queue, "a", "b")
    server.fill()
    before = await content(real_queue)
    assert not await real_queue.stamp()
    assert await content(real_queue) == before
    claim = await look(real_queue, "b1", wait=10_000)
    assert isinstance(claim, Claim)
    assert (claim.trigger, ids(claim)) == ("timeout", ["a", "b"])
    assert await states(real_queue, "a", "b") == ["running"] * 2


async def test_a_stamp_from_the_future_is_due_at_once(real_queue: Queue, server: Server) -> None:
    await submit(real_queue, "a")
    later(real_queue, -100)
    server.fill()
    assert ids(await look(real_queue, "b1", wait=50)) == ["a"]


async def test_a_raw_copy_of_an_id_that_expired_runs_again(real_queue: Queue, server: Server) -> None:
    await submit(real_queue, "a")
    await deliver(real_queue, await board(real_queue, "b1"))
    await real_queue.redis.delete(real_queue.keys.result("a"))
    await push(real_queue, "a")
    server.fill()
    assert ids(await look(real_queue, "b2", drain=True)) == ["a"]


async def test_leases_are_renewed(real_queue: Queue, server: Server) -> None:
    await submit(real_queue, "a")
    await board(real_queue, "b1", lease=100)
    server.fill()
    later(real_queue, 90)
    assert await real_queue.renew(["b1"], lease_ms=100) == [True]
    later(real_queue, 90)
    assert await real_queue.reclaim() == []


@pytest.mark.parametrize("way", ["reclaim", "release", "hand_back"])
async def test_a_batch_is_given_up_and_runs_again(real_queue: Queue, server: Server, way: str) -> None:
    await submit(real_queue, *"abcd")
    await board(real_queue, "b1", lease=100)
    server.fill()
    later(real_queue, 100)
    await (real_queue.reclaim() if way == "reclaim" else getattr(real_queue, way)("b1"))
    assert await states(real_queue, *"abcd") == ["waiting"] * 4
    again: list[str] = []
    while isinstance(claim := await look(real_queue, f"c{len(again)}", drain=True), Claim):
        again += ids(claim)
        await deliver(real_queue, claim)
    assert again == list("abcd")


async def test_workers_go_on_saying_that_they_live(real_queue: Queue, server: Server) -> None:
    server.fill()
    await real_queue.heartbeat(WorkerInfo(name="w1", state="ready"), ttl_s=5)
    assert [worker.name for worker in (await real_queue.info()).workers] == ["w1"]
    await real_queue.farewell("w1")
    assert (await real_queue.info()).workers == ()


async def test_dead_letters_are_written_and_redriven(real_queue: Queue, server: Server) -> None:
    await submit(real_queue, "a")
    server.fill()
    assert await bury(real_queue, await board(real_queue, "b1")) == [True]
    (dead,) = await real_queue.dead_letters()
    assert await real_queue.redrive(dead)
    assert ids(await board(real_queue, "b2")) == ["a"]


async def test_an_audit_repairs(real_queue: Queue, server: Server) -> None:
    await submit(real_queue, "a", "b")
    await board(real_queue, "b1")
    await real_queue.redis.delete(real_queue.keys.leases, real_queue.keys.batches)
    server.fill()
    assert await real_queue.audit(grace_ms=10) == 1
    later(real_queue, 10)
    assert [taken.rows for taken in await real_queue.reclaim()] == [2]


@pytest.mark.parametrize("where", ["waiting", "running", "unknown"])
async def test_a_cancel_is_refused_and_changes_nothing(real_queue: Queue, server: Server, where: str) -> None:
    await submit(real_queue, "running")
    await board(real_queue, "b1")
    await submit(real_queue, "waiting")
    server.fill()
    before = await content(real_queue)
    with pytest.raises(BusloadUnavailable, match="maxmemory"):
        await real_queue.cancel(where, result=result(where, "cancelled"), ttl_s=60)
    assert await content(real_queue) == before


async def test_a_full_redis_is_drained_and_nothing_is_lost(real_queue: Queue, server: Server) -> None:
    names = [str(i) for i in range(500)]
    await submit(real_queue, *names)
    await push(real_queue, *(f"raw{i}" for i in range(500)))
    server.fill()
    later(real_queue, 100)
    answered: list[str] = []
    while isinstance(claim := await look(real_queue, f"b{len(answered)}", cap=32), Claim):
        assert all(await deliver(real_queue, claim))
        answered += ids(claim)
    assert answered == names + [f"raw{i}" for i in range(500)]
