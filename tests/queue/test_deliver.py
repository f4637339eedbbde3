"""Results: written once, by who holds the row, and told to who waits."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.listening import listen_to
from tests.queue.steps import (
    answer,
    board,
    bury,
    content,
    deliver,
    later,
    look,
    push,
    result,
    states,
    submit,
)  # fmt: skip

from busload_shared.queue import Queue
from busload_shared.replies import Delivery


async def test_a_delivered_row_is_answered_and_leaves_the_flight(queue: Queue) -> None:
    await submit(queue, "a")
    assert await deliver(queue, await board(queue, "b1")) == [True]
    (found,) = await queue.status(["a"])
    assert found.state == "answered"
    assert found.result is not None
    assert (found.result.id, found.result.status) == ("a", "succeeded")
    assert await queue.redis.hlen(queue.keys.inflight) == 0


async def test_rows_may_get_off_one_by_one(queue: Queue) -> None:
    await submit(queue, "a", "b", "c")
    claim = await board(queue, "b1")
    for seat in (claim.seats[1], claim.seats[0], claim.seats[2]):
        assert await states(queue, seat.element.id) == ["running"]
        assert await queue.deliver("b1", [answer(seat)], ttl_s=60) == [True]
        assert await states(queue, seat.element.id) == ["answered"]


async def test_delivering_again_changes_nothing_and_says_written(queue: Queue) -> None:
    await submit(queue, "a", "b")
    claim = await board(queue, "b1")
    assert await deliver(queue, claim) == [True, True]
    before = await content(queue)
    assert await deliver(queue, claim) == [True, True]
    assert await content(queue) == before


async def test_another_answer_to_the_same_row_is_refused(queue: Queue) -> None:
    await submit(queue, "a")
    claim = await board(queue, "b1")
    await deliver(queue, claim)
    assert await queue.deliver("b1", [answer(claim.seats[0], "failed")], ttl_s=60) == [False]
    assert await queue.results(["a"]) == [answer(claim.seats[0]).result]


async def test_a_worker_that_lost_its_batch_writes_nothing(queue: Queue) -> None:
    """Q3, B30: a stopped worker comes back after its batch was taken; the first result stays."""
    await submit(queue, "a")
    zombie = await board(queue, "b1", lease=10)
    later(queue, 10)
    await queue.reclaim()
    assert await deliver(queue, zombie) == [False]
    assert await states(queue, "a") == ["waiting"]
    heir = await board(queue, "b2")
    row = answer(zombie.seats[0], worker="zombie")
    assert await queue.deliver("b1", [row], ttl_s=60) == [False]
    assert await deliver(queue, heir) == [True]
    assert await queue.deliver("b1", [row], ttl_s=60) == [False]
    assert await queue.results(["a"]) == [answer(heir.seats[0]).result]


async def test_a_refused_row_leaves_no_dead_letter(queue: Queue) -> None:
    await submit(queue, "a")
    claim = await board(queue, "b1")
    await queue.redis.set(queue.keys.result("a"), result("a"), px=60_000)
    assert await bury(queue, claim) == [False]
    assert await queue.dead_letters() == []


async def test_a_row_that_is_refused_does_not_stop_its_neighbours(queue: Queue) -> None:
    await submit(queue, "a", "b", "c")
    claim = await board(queue, "b1")
    await queue.redis.set(queue.keys.result("b"), result("b", "failed"), px=60_000)
    assert await deliver(queue, claim) == [True, False, True]
    assert await queue.redis.exists(queue.keys.inflight, queue.keys.batches, queue.keys.leases) == 0


async def test_results_expire_and_a_reader_can_tell(queue: Queue) -> None:
    """B32."""
    await submit(queue, "a")
    await deliver(queue, await board(queue, "b1"), ttl=60)
    k = queue.keys
    assert 0 < await queue.redis.pttl(k.result("a")) <= 60_000
    assert await queue.redis.pttl(k.state("a")) > await queue.redis.pttl(k.result("a"))
    await queue.redis.delete(k.result("a"))
    assert await states(queue, "a", "never") == ["expired", "unknown"]


async def test_a_row_without_an_id_leaves_a_dead_letter_only(queue: Queue) -> None:
    await push(queue, b"junk")
    assert await bury(queue, await board(queue, "b1")) == [True]
    (dead,) = await queue.dead_letters()
    assert (dead.id, dead.payload_bytes) == (None, b"junk")
    assert await queue.redis.exists(queue.keys.inflight, queue.keys.batches, queue.keys.leases) == 0


async def test_answers_are_counted_by_their_status(queue: Queue) -> None:
    """B17: they add up."""
    await submit(queue, *"abcd")
    claim = await board(queue, "b1")
    kinds = ("succeeded", "failed", "cancelled", "expired")
    rows = [answer(seat, kind) for seat, kind in zip(claim.seats, kinds, strict=True)]
    await queue.deliver("b1", rows, ttl_s=60)
    await queue.deliver("b1", rows, ttl_s=60)
    assert (await queue.info()).counters == dict.fromkeys(kinds, 1)


async def heard(queue: Queue, channels: list[str], act: Any) -> list[tuple[str, bytes]]:
    """What these channels say while `act` runs."""
    async with queue.redis.pubsub(ignore_subscribe_messages=True) as listener:
        await listen_to(listener, *channels, "end")
        await act()
        await queue.redis.publish("end", b"")
        said: list[tuple[str, bytes]] = []
        async with asyncio.timeout(5):
            while True:
                message = await listener.get_message(timeout=1)
                if message and message["channel"] == b"end":
                    return said
                if message:
                    said.append((message["channel"].decode(), message["data"]))


async def test_who_waits_for_an_id_is_told_its_status(queue: Queue) -> None:
    await submit(queue, "a", "b")
    claim = await board(queue, "b1")
    said = await heard(queue, [queue.keys.done("a")], lambda: deliver(queue, claim))
    assert said == [(queue.keys.done("a"), b"succeeded")]


async def test_each_client_gets_all_its_results_of_a_call_in_one_message(queue: Queue) -> None:
    await submit(queue, "a", "b", reply="r1")
    await submit(queue, "c", reply="r2")
    claim = await board(queue, "b1")
    channels = [queue.keys.reply("r1"), queue.keys.reply("r2")]
    said = dict(await heard(queue, channels, lambda: deliver(queue, claim)))
    assert [item["id"] for item in json.loads(said[channels[0]])] == ["a", "b"]
    assert [item["id"] for item in json.loads(said[channels[1]])] == ["c"]


async def test_a_large_result_is_told_by_its_id(queue: Queue) -> None:
    await submit(queue, "a", reply="r1")
    (seat,) = (await board(queue, "b1")).seats
    large = result("a", metadata={"x": "y" * 70_000})
    row = Delivery(0, "a", "succeeded", seat.element.reply, large)
    said = await heard(queue, [queue.keys.reply("r1")], lambda: queue.deliver("b1", [row], ttl_s=60))
    assert [json.loads(data) for _, data in said] == [["a"]]


async def test_nobody_is_told_of_a_result_that_was_refused_or_written_before(queue: Queue) -> None:
    await submit(queue, "a", reply="r1")
    claim = await board(queue, "b1")
    await deliver(queue, claim)
    channels = [queue.keys.reply("r1"), queue.keys.done("a")]
    assert await heard(queue, channels, lambda: deliver(queue, claim)) == []


async def test_a_delivery_to_a_batch_that_never_was_is_refused(queue: Queue) -> None:
    row = Delivery(0, "a", "succeeded", "", result("a"))
    assert await queue.deliver("never", [row], ttl_s=60) == [False]
    assert await content(queue) == {}


async def test_rows_that_were_answered_do_not_come_back_with_a_dead_batch(queue: Queue) -> None:
    await submit(queue, "a", "b", "c")
    claim = await board(queue, "b1")
    await queue.deliver("b1", [answer(claim.seats[1])], ttl_s=60)
    assert await queue.release("b1") == 2
    rows = [(await look(queue, f"c{i}")) for i in range(2)]
    assert [seat.element.id for claim in rows for seat in claim.seats] == ["a", "c"]
