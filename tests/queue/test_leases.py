"""Leases: who holds a batch, until when, and what repairs them."""

from __future__ import annotations

from tests.queue.steps import answer, board, content, deliver, ids, later, look, states, submit

from busload_shared.queue import Queue


async def test_a_renewed_lease_runs_from_the_renewal(queue: Queue) -> None:
    await submit(queue, "a")
    await board(queue, "b1", lease=100)
    later(queue, 80)
    assert await queue.renew(["b1"], lease_ms=100) == [True]
    later(queue, 99)
    assert await queue.reclaim() == []
    later(queue, 1)
    assert [taken.batch for taken in await queue.reclaim()] == ["b1"]


async def test_a_lease_that_was_taken_back_is_not_made_again(queue: Queue) -> None:
    """Q4: its holder learns it."""
    await submit(queue, "a", "b")
    await board(queue, "b1", cap=1, lease=100)
    await board(queue, "b2", cap=1, lease=1000)
    later(queue, 100)
    await queue.reclaim()
    before = await content(queue)
    assert await queue.renew(["b1"], lease_ms=100) == [False]
    assert await content(queue) == before
    assert await queue.renew(["b1", "b2"], lease_ms=100) == [False, True]


async def test_an_expired_lease_that_nobody_took_back_can_be_renewed(queue: Queue) -> None:
    await submit(queue, "a")
    await board(queue, "b1", lease=100)
    later(queue, 500)
    assert await queue.renew(["b1"], lease_ms=100) == [True]
    assert await queue.reclaim() == []


async def test_a_late_worker_may_answer_until_its_batch_is_taken_back(queue: Queue) -> None:
    await submit(queue, "a")
    claim = await board(queue, "b1", lease=100)
    later(queue, 500)
    assert await deliver(queue, claim) == [True]


async def test_the_last_answer_ends_the_lease(queue: Queue) -> None:
    await submit(queue, "a", "b")
    claim = await board(queue, "b1")
    k = queue.keys
    await queue.deliver("b1", [answer(claim.seats[0])], ttl_s=60)
    assert await queue.redis.zscore(k.leases, "b1") is not None
    await queue.deliver("b1", [answer(claim.seats[1])], ttl_s=60)
    assert await queue.redis.exists(k.leases, k.batches, k.inflight) == 0
    assert await queue.renew(["b1"], lease_ms=100) == [False]


async def test_deleted_leases_are_repaired_and_the_work_comes_back(queue: Queue) -> None:
    """Q17."""
    await submit(queue, "a", "b", "c")
    await board(queue, "b1", cap=2)
    await board(queue, "b2", cap=1)
    await queue.redis.delete(queue.keys.leases)
    assert await queue.audit(grace_ms=30) == 2
    assert await queue.reclaim() == []
    later(queue, 30)
    assert sorted(taken.batch for taken in await queue.reclaim()) == ["b1", "b2"]
    assert await states(queue, "a", "b", "c") == ["waiting"] * 3


async def test_deleted_batches_are_repaired_and_the_work_comes_back(queue: Queue) -> None:
    """Q17: the lease is there, and says when."""
    await submit(queue, "a", "b", "c")
    claim = await board(queue, "b1", lease=100)
    await queue.deliver("b1", [answer(claim.seats[1])], ttl_s=60)
    await queue.redis.delete(queue.keys.batches)
    assert await queue.audit(grace_ms=30) == 1
    later(queue, 100)
    assert [taken.rows for taken in await queue.reclaim()] == [2]
    assert ids(await look(queue, "b2")) + ids(await look(queue, "b3")) == ["a", "c"]


async def test_deleted_batches_and_leases_are_repaired_together(queue: Queue) -> None:
    await submit(queue, "a", "b", "c")
    claim = await board(queue, "b1")
    await queue.redis.delete(queue.keys.batches, queue.keys.leases)
    assert await queue.audit(grace_ms=30) == 1
    assert await deliver(queue, claim) == [True, True, True]
    assert await queue.redis.exists(queue.keys.batches, queue.keys.leases, queue.keys.inflight) == 0


async def test_a_repaired_batch_is_no_evidence_against_its_last_row(queue: Queue) -> None:
    """It is not known any more how many rode in it."""
    await submit(queue, "a", "b")
    claim = await board(queue, "b1", lease=100)
    await queue.deliver("b1", [answer(claim.seats[1])], ttl_s=60)
    await queue.redis.delete(queue.keys.batches)
    await queue.audit(grace_ms=30)
    await queue.release("b1")
    (seat,) = (await board(queue, "b2")).seats
    assert (seat.element.attempts, seat.element.lone_deaths) == (1, 0)


async def test_an_audit_of_a_sound_queue_changes_nothing(queue: Queue) -> None:
    """Q7: what is leased is never touched."""
    await submit(queue, "a", "b", "c")
    claim = await board(queue, "b1", cap=2)
    await board(queue, "b2", cap=1)
    await queue.deliver("b1", [answer(claim.seats[0])], ttl_s=60)
    before = await content(queue)
    assert await queue.audit(grace_ms=30) == 0
    assert await content(queue) == before


async def test_a_worker_that_dies_while_it_takes_back_disables_nobody(queue: Queue) -> None:
    """Q15: there is no lock that a dead one could hold."""
    for round_ in range(20):
        await submit(queue, f"a{round_}")
        await board(queue, f"b{round_}", lease=10)
        later(queue, 10)
        assert len(await queue.reclaim()) == 1
        await deliver(queue, await board(queue, f"c{round_}"))
