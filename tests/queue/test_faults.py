"""Lost replies, lost scripts, lost connections, and keys of a wrong type: nothing is lost or done twice."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.queue.steps import (
    answer,
    board,
    body,
    bury,
    content,
    deliver,
    ids,
    later,
    letter,
    look,
    push,
    result,
    states,
    submit,
)  # fmt: skip
from tests.redis_servers import Server

from busload_shared import connection
from busload_shared.errors import BusloadUnavailable
from busload_shared.queue import Queue
from busload_shared.replies import Claim, Delivery, WorkerInfo

ALIVE = WorkerInfo(name="w1", state="ready")
LETTER = letter("dead", body("dead"))


async def scene(queue: Queue) -> None:
    """Something for every script to do: waiting, raw, dead, running and orphaned requests, and suspects."""
    await submit(queue, "a", "b")
    await board(queue, "suspects")
    await submit(queue, "e", "f", "g", reply="r1")
    await board(queue, "running", cap=2, lease=10_000)
    await board(queue, "late", lease=0)
    await submit(queue, "dead")
    await bury(queue, await board(queue, "bury"))
    await queue.release("suspects")
    await queue.redis.hset(queue.keys.stats, "lane", "retry")
    await queue.heartbeat(ALIVE, ttl_s=5)
    await submit(queue, "c", "d")
    await push(queue, "raw", b"junk {}")


ANSWERS = [Delivery(i, name, "succeeded", "r1", result(name)) for i, name in enumerate(["e", "f"])]

CALLS: dict[str, Callable[[Queue], Awaitable[Any]]] = {
    "submit": lambda q: q.submit([("new", body("new")), ("c", body("c"))], limit=100, reply="r2"),
    "stamp": lambda q: q.stamp(),
    "claim": lambda q: look(q, "new-batch"),
    "claim of fresh ones": lambda q: q.claim(
        "fresh-batch", worker="w", max_batch_size=1, max_wait_ms=0, lease_ms=10, drain=True
    ),
    "renew": lambda q: q.renew(["running", "late", "never"], lease_ms=500),
    "deliver": lambda q: q.deliver("running", ANSWERS, ttl_s=60),
    "reclaim": lambda q: q.reclaim(),
    "release": lambda q: q.release("running"),
    "hand_back": lambda q: q.hand_back("running"),
    "audit": lambda q: q.audit(grace_ms=10),
    "cancel of a waiting one": lambda q: q.cancel("c", result=result("c", "cancelled"), ttl_s=60),
    "cancel of a running one": lambda q: q.cancel("e", result=result("e", "cancelled"), ttl_s=60),
    "cancel of an unknown one": lambda q: q.cancel("x", result=result("x", "cancelled"), ttl_s=60),
    "redrive": lambda q: q.redrive(LETTER),
    "heartbeat": lambda q: q.heartbeat(ALIVE, ttl_s=5),
    "farewell": lambda q: q.farewell("w1"),
    "purge_dead": lambda q: q.purge_dead(),
    "status": lambda q: q.status(["a", "c", "e", "dead", "x"]),
    "info": lambda q: q.info(),
    "results": lambda q: q.results(["dead"]),
    "cancels": lambda q: q.cancels(["e"]),
    "dead_letters": lambda q: q.dead_letters(),
}
SAME_REPLY = {
    "claim", "claim of fresh ones", "renew", "deliver", "stamp", "status", "info", "results", "cancels",
    "cancel of a running one", "cancel of an unknown one", "heartbeat", "dead_letters",
}  # fmt: skip
"""Calls whose second reply is as good as the first that was lost."""


@pytest.mark.parametrize("call", CALLS)
async def test_a_call_whose_reply_was_lost_may_be_made_again(queue: Queue, call: str) -> None:
    """Q8, Q10: nothing changes, and nothing is counted twice."""
    await scene(queue)
    if call == "audit":
        await queue.redis.delete(queue.keys.leases)
    first = await CALLS[call](queue)
    after = await content(queue)
    second = await CALLS[call](queue)
    assert await content(queue) == after
    if call in SAME_REPLY:
        assert second == first


async def everyone(queue: Queue) -> list[str]:
    """The ids of all elements in lists and flight, sorted; keys of a wrong type hold none."""
    found: list[bytes] = []
    for key in (queue.keys.queue, queue.keys.retry):
        if await queue.redis.type(key) == b"list":
            found += await queue.redis.lrange(key, 0, -1)
    if await queue.redis.type(queue.keys.inflight) == b"hash":
        found += await queue.redis.hvals(queue.keys.inflight)
    return sorted(element.decode().partition("{")[2] for element in found)


BROKEN = ["queue", "retry", "inflight", "leases", "batches", "dead", "stats", "workers"]


@pytest.mark.parametrize("key", BROKEN)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.leaves_keys
async def test_a_key_of_a_wrong_type_is_named_and_nothing_is_changed(any_queue: Queue, call: str, key: str) -> None:
    """Q20."""
    await scene(any_queue)
    await any_queue.redis.delete(getattr(any_queue.keys, key))
    await any_queue.redis.xadd(getattr(any_queue.keys, key), {"odd": "one"})
    before, were = await content(any_queue), await everyone(any_queue)
    try:
        await CALLS[call](any_queue)
    except BusloadUnavailable as error:
        refusal = str(error)
        assert await content(any_queue) == before
    else:
        refusal = "WRONGTYPE"
        assert lost(were, await everyone(any_queue)) <= answered_by(call)
    assert "WRONGTYPE" in refusal


def lost(before: list[str], after: list[str]) -> int:
    return len(before) - len(after)


def answered_by(call: str) -> int:
    """How many elements a call may take away."""
    return 2 if call == "deliver" else 0


@pytest.mark.parametrize("kind", ["state", "result", "cancel"])
@pytest.mark.parametrize("name", ["a", "c", "raw", "e", "dead"])
@pytest.mark.parametrize("call", [call for call in CALLS if call not in ("status", "info")])
@pytest.mark.leaves_keys
async def test_an_odd_key_of_one_request_loses_no_request(any_queue: Queue, call: str, name: str, kind: str) -> None:
    """Q20: a list where a request's state, result or cancel should be."""
    await scene(any_queue)
    odd = getattr(any_queue.keys, kind)(name)
    await any_queue.redis.delete(odd)
    await any_queue.redis.lpush(odd, "odd")
    before, were = await content(any_queue), await everyone(any_queue)
    try:
        await CALLS[call](any_queue)
    except BusloadUnavailable:
        assert await content(any_queue) == before
    else:
        dropped = (await any_queue.info()).counters.get("dropped", 0)
        assert lost(were, await everyone(any_queue)) <= answered_by(call) + dropped
        assert await any_queue.audit(grace_ms=1) == 0


@pytest.mark.leaves_keys
async def test_a_counter_that_is_no_number_stops_nobody(any_queue: Queue) -> None:
    queue = any_queue
    await submit(queue, "a", "b")
    claim = await board(queue, "b0", cap=1)
    await push(queue, "a", "junk")
    for field in ("dropped", "succeeded", "released", "reclaimed", "cancelled"):
        await queue.redis.hset(queue.keys.stats, field, "odd")
    await deliver(queue, claim)
    assert ids(await board(queue, "b1")) == ["b", "junk"]
    await queue.release("b1")
    assert ids(await board(queue, "b2", lease=0)) == ["b"]
    assert len(await queue.reclaim()) == 1
    assert await queue.cancel("b", result=result("b", "cancelled"), ttl_s=60) == "cancelled"


async def test_scripts_may_be_flushed_between_any_two_calls(queue: Queue) -> None:
    """Q28."""
    calls: list[Callable[[], Awaitable[Any]]] = [
        lambda: submit(queue, "a", "b", "c"),
        lambda: queue.stamp(),
        lambda: look(queue, "b1", cap=2),
        lambda: queue.renew(["b1"], lease_ms=100),
        lambda: queue.release("b1"),
        lambda: look(queue, "b2", drain=True),
        lambda: queue.hand_back("b2"),
        lambda: queue.audit(grace_ms=10),
        lambda: queue.reclaim(),
        lambda: queue.cancel("b", result=result("b", "cancelled"), ttl_s=60),
        lambda: queue.heartbeat(ALIVE, ttl_s=5),
        lambda: queue.info(),
        lambda: states(queue, "a"),
        lambda: queue.redrive(LETTER),
    ]
    for call in calls:
        await queue.redis.script_flush()
        await call()
    left: list[str] = []
    while isinstance(claim := await look(queue, f"c{len(left)}", drain=True), Claim):
        await queue.redis.script_flush()
        await deliver(queue, claim)
        left += ids(claim)
    assert sorted(left) == ["a", "c"]


async def test_killed_connections_are_made_again(real_queue: Queue, server: Server) -> None:
    """B11: the window goes on where it was."""
    real_queue._patience_s = 5
    await submit(real_queue, "a")
    server.kill_connections()
    await look(real_queue, "b1", wait=50)
    later(real_queue, 50)
    server.kill_connections()
    claim = await look(real_queue, "b1", wait=50)
    assert ids(claim) == ["a"]
    assert isinstance(claim, Claim)
    server.kill_connections()
    assert await deliver(real_queue, claim) == [True]


async def test_a_restarted_redis_is_found_again(real_queue: Queue, server: Server) -> None:
    """Q22, Q28: ten times; it comes back with its data and without its scripts."""
    real_queue._patience_s = 20
    for i in range(10 if server.version == "7.0" else 2):
        await submit(real_queue, f"a{i}")
        server.restart(keep=True)
        assert ids(await board(real_queue, f"b{i}", cap=99))[-1:] == [f"a{i}"]
        await real_queue.hand_back(f"b{i}")


async def test_a_frozen_redis_is_given_up_in_time_and_used_again(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "READ_TIMEOUT_S", 0.1)
    queue = Queue(connection.open_redis(server.url), "busload:test", patience_s=0.3)
    await submit(queue, "a")
    server.pause()
    with pytest.raises(BusloadUnavailable, match="does not answer"):
        await submit(queue, "b")
    server.resume()
    queue._patience_s = 10
    assert (await submit(queue, "b"))[0] in ("queued", "waiting")
    (row,) = (await board(queue, "b1", cap=1)).seats
    assert await queue.deliver("b1", [answer(row)], ttl_s=60) == [True]
    await queue.redis.aclose()
