"""Several partitions as one queue: what goes where, what is put together, and whose turn it is."""

from __future__ import annotations

import inspect
import json

import pytest
from tests.conftest import START_MS
from tests.queue.steps import answer, board, body, ids, look, push, result, submit
from tests.redis_servers import Server, Servers

from busload_shared.connection import open_redis
from busload_shared.errors import BusloadUnavailable
from busload_shared.opening import open_queue
from busload_shared.partitions.homes import partition_of
from busload_shared.partitions.partitioned import PartitionedQueue
from busload_shared.queue import Queue
from busload_shared.replies import Claim, DeadLetter, NotYet, WorkerInfo
from busload_shared.terms import Terms

from .conftest import COUNT
from .homes import ids_in, one_in_each

INHERITED = {"parts"}
"""What Queue has and a partitioned queue need not answer for itself: nothing that asks Redis."""


def later(queue: PartitionedQueue, ms: float) -> None:
    assert queue.now_ms is not None
    queue.hold_clock(queue.now_ms + ms)


async def everyone(queue: Queue, *, cap: int = 8) -> dict[str, str]:
    """Board all who wait: id -> batch."""
    boarded = {}
    for number in range(100):
        claim = await look(queue, f"b{number}", cap=cap, drain=True)
        if isinstance(claim, NotYet):
            return boarded
        boarded |= dict.fromkeys(ids(claim), claim.batch)
    raise AssertionError("never empty")


def test_every_call_of_a_queue_is_answered_for_the_partitions() -> None:
    """A method that is new in Queue would ask partition 0 alone."""
    asked = {name for name, value in inspect.getmembers(Queue) if inspect.iscoroutinefunction(value) and name[0] != "_"}
    own = {name for kind in PartitionedQueue.__mro__[:2] for name in vars(kind)}
    assert asked - own - INHERITED == set()


async def test_each_request_is_in_the_partition_that_its_id_says(parted: PartitionedQueue) -> None:
    names = [f"r{number}" for number in range(40)]
    sent = await parted.submit([(name, body(name)) for name in names], limit=1000)
    assert (set(sent.states), sent.depth) == ({"queued"}, 40)
    for number, part in enumerate(parted.parts):
        there = [json.loads(element.split(b" ", 5)[5])["id"] for element in await part.peek(100)]
        assert there == [name for name in names if partition_of(name, COUNT) == number], "and in order"
    assert await submit(parted, *names) == ("waiting",) * 40


async def test_terms_go_with_their_requests(parted: PartitionedQueue) -> None:
    names = one_in_each(COUNT)
    terms = {at: Terms(ttl_ms=100.0 * at) for at in (1, 3)}
    await parted.submit([(name, body(name)) for name in names], limit=100, terms=terms)
    later(parted, 1000)
    assert set(await parted.overdue()) == {names[1], names[3]}
    answers = {name: result(name, "expired", attempts=0) for name in await parted.overdue()}
    assert await parted.expire(answers, ttl_s=60) == 2
    assert [one.state for one in await parted.status(names)] == ["waiting", "answered", "waiting", "answered"]


async def test_a_partition_is_full_when_it_has_its_share(parted: PartitionedQueue) -> None:
    first, second = ids_in(0, COUNT, 4), ids_in(1, COUNT, 1)
    assert await submit(parted, *first, *second, limit=12) == ("queued", "queued", "queued", "full", "queued")


async def test_a_batch_has_rows_of_one_partition_and_its_name_says_which(parted: PartitionedQueue) -> None:
    names = [f"r{number}" for number in range(24)]
    await submit(parted, *names)
    boarded = await everyone(parted)
    assert set(boarded) == set(names)
    assert all(batch.endswith(f"/{partition_of(name, COUNT)}") for name, batch in boarded.items())


async def test_a_batch_is_renewed_answered_and_given_up_where_it_is(parted: PartitionedQueue) -> None:
    names = one_in_each(COUNT)
    await submit(parted, *names, reply="c")
    claims = [await board(parted, f"b{number}") for number in range(COUNT)]
    assert await parted.renew([claim.batch for claim in claims] + ["gone/2"], lease_ms=500) == [True] * 4 + [False]
    done, back, died, silent = claims
    assert await parted.deliver(done.batch, [answer(done.seats[0])], ttl_s=60) == [True]
    assert await parted.hand_back(back.batch) == 1
    assert await parted.release(died.batch) == 1
    later(parted, 501)
    assert [(taken.batch, taken.rows) for taken in await parted.reclaim()] == [(silent.batch, 1)]
    info = await parted.info()
    assert (info.waiting, info.retry, info.inflight, info.leases) == (1, 2, 0, 0)
    assert info.counters == {"succeeded": 1, "released": 1, "reclaimed": 1}
    stored = await parted.results(names)
    assert [body is not None for body in stored].count(True) == 1


async def test_a_claim_whose_reply_was_lost_is_found_again_when_its_turn_comes(parted: PartitionedQueue) -> None:
    name, other = ids_in(1, COUNT, 1)[0], ids_in(2, COUNT, 1)[0]
    await submit(parted, name)
    rounds = parted._going()
    lost = rounds._parts[1]
    claim = lost.claim

    async def and_no_reply(*given: object, **named: object) -> Claim | NotYet:
        await claim(*given, **named)  # type: ignore[arg-type]
        raise BusloadUnavailable("the reply was lost")

    lost.claim = and_no_reply  # type: ignore[method-assign]
    assert isinstance(await look(parted, "b1", drain=True), NotYet)
    assert [one.state for one in await parted.status([name])] == ["running"]
    lost.claim = claim  # type: ignore[method-assign]
    await submit(parted, other)
    assert ids(await look(parted, "b1", drain=True)) == [other], "it does not wait for the one that is away"
    while 1 in rounds.absent:
        await rounds.absent._asking[1]
    assert ids(await look(parted, "b2", drain=True)) == [name], "what it held went back"
    assert (await parted.info()).retry == 0


async def test_what_was_claimed_unheard_goes_back_at_the_end(parted: PartitionedQueue) -> None:
    name = ids_in(3, COUNT, 1)[0]
    await submit(parted, name)
    rounds = parted._going()
    rounds._unsure[3] = "b1/3"
    assert ids(await rounds._parts[3].claim("b1/3", worker="w", max_batch_size=8, max_wait_ms=0, lease_ms=1000)) == [
        name
    ]
    assert await parted.hand_back("b1") == 1
    assert [one.state for one in await parted.status([name])] == ["waiting"]


async def test_the_window_of_each_partition_is_its_own(parted: PartitionedQueue) -> None:
    early, late = ids_in(0, COUNT, 1)[0], ids_in(1, COUNT, 1)[0]
    await submit(parted, early)
    later(parted, 30)
    await submit(parted, late)
    seen = await look(parted, "b1", wait=50)
    assert isinstance(seen, NotYet)
    assert (seen.depth, seen.due_in_ms) == (1, 20.0)
    later(parted, 20)
    assert ids(await look(parted, "b1", wait=50)) == [early]
    assert isinstance(await look(parted, "b2", wait=50), NotYet)
    later(parted, 30)
    assert ids(await look(parted, "b2", wait=50)) == [late]


async def test_an_old_request_in_a_quiet_partition_does_not_wait_for_a_busy_one(parted: PartitionedQueue) -> None:
    """Many full batches of partition 0 are there, of requests that came before it and after it."""
    quiet = ids_in(1, COUNT, 1)[0]
    busy = ids_in(0, COUNT, 160)
    await submit(parted, *busy[:80])
    later(parted, 60_000)
    assert len(ids(await look(parted, "warm", cap=4))) == 4
    await submit(parted, quiet)
    await submit(parted, *busy[80:])
    later(parted, 60)
    boarded = [ids(await look(parted, f"b{number}", cap=4)) for number in range(2 * COUNT)]
    assert [quiet] in boarded, "after twice as many batches as there are partitions at the latest"


async def test_partitions_under_load_take_turns_by_age(parted: PartitionedQueue) -> None:
    groups = [ids_in(number, COUNT, 4) for number in range(COUNT)]
    for at in range(0, 4, 2):
        for group in (groups[2], groups[0], groups[3], groups[1]):
            await submit(parted, *group[at : at + 2])
            later(parted, 1000)
    order = [int((await board(parted, f"b{number}", cap=2)).batch[-1]) for number in range(8)]
    assert sorted(order[:4]) == sorted(order[4:]) == [0, 1, 2, 3], "none is twice ahead of another"
    assert order[4:] == [2, 0, 3, 1], "by age, once each was looked at"


async def test_the_depth_of_a_claim_counts_what_is_known_of_the_others(parted: PartitionedQueue) -> None:
    await submit(parted, *[name for number in range(COUNT) for name in ids_in(number, COUNT, 5)])
    depths = [(await board(parted, f"b{number}", cap=2)).depth for number in range(COUNT)]
    assert depths == [3, 6, 9, 12]


async def test_a_cancel_reaches_a_request_wherever_it_is(parted: PartitionedQueue) -> None:
    waiting, running = ids_in(2, COUNT, 2)
    await submit(parted, running)
    claim = await board(parted, "b1")
    await submit(parted, waiting)
    cancel = [await parted.cancel(name, result=result(name, "cancelled"), ttl_s=60) for name in (waiting, running)]
    assert cancel == ["cancelled", "running"]
    assert await parted.cancels([running, "x"], batch=claim.batch) == {running}


async def test_dead_letters_of_all_partitions_are_one_list(parted: PartitionedQueue) -> None:
    names = one_in_each(COUNT)
    for at, name in enumerate(names):
        letter = DeadLetter(
            id=name, code="poison", message="m", at_ms=at, enqueued_ms=0, attempts=2, batch="b", worker="w",
            payload=body(name).decode(),
        )  # fmt: skip
        await parted.parts[at].redis.lpush(parted.parts[at].keys.dead, letter.model_dump_json())
    assert [letter.id for letter in await parted.dead_letters()] == names[::-1], "newest first"
    assert [letter.id for letter in await parted.dead_letters(start=1, count=2)] == [names[2], names[1]]
    assert [letter.id for letter in await parted.dead_letters(start=-2, count=2)] == [names[1], names[0]]
    first, second, *_ = await parted.dead_letters()
    assert [await parted.redrive(first), await parted.redrive(first)] == [True, False]
    assert [one.state for one in await parted.status([names[3]])] == ["waiting"]
    assert [await parted.drop_dead(second), await parted.drop_dead(second)] == [True, False]
    assert await parted.purge_dead() == 2


async def test_raw_requests_are_stamped_in_every_partition(parted: PartitionedQueue) -> None:
    for part, name in zip(parted.parts, one_in_each(COUNT), strict=True):
        await push(part, name)
    assert await parted.stamp()
    assert (await parted.info()).oldest_waiting_ms == 0.0
    assert len(await everyone(parted)) == COUNT


async def test_every_partition_knows_the_workers_and_each_counts_once(parted: PartitionedQueue) -> None:
    for name in ("w1", "w2"):
        worker = open_queue(url_of(parted), parted.keys.queue, partitions=COUNT)
        worker.now_ms = START_MS
        alive = await worker.heartbeat(WorkerInfo(name=name, state="ready", partitions=COUNT), ttl_s=15)
        await worker.close()
    assert alive == 2
    for part in parted.parts:
        assert [worker.name for worker in (await part.info()).workers] == ["w1", "w2"]
    assert [worker.name for worker in (await parted.info()).workers] == ["w1", "w2"]
    await parted.farewell("w1")
    assert [len((await part.info()).workers) for part in parted.parts] == [1] * COUNT


def url_of(queue: Queue) -> str:
    given = queue.redis.connection_pool.connection_kwargs
    return f"redis://{given['host']}:{given['port']}/0"


async def test_lengths_are_learned_once_for_all(parted: PartitionedQueue) -> None:
    await parted.learn({"route:a": (2.0, 4.0, 8.0)}, kept_share=0.99, most_keys=10, ttl_s=60)
    assert await parted.lengths() == {"route:a": (2.0, 4.0, 8.0)}


async def test_somebody_who_comes_into_any_partition_is_noticed(parted: PartitionedQueue) -> None:
    assert not await parted.wait_for_arrival(parted.redis, timeout_s=0.05)
    for number in (2, 1):
        await push(parted.parts[number], f"r{number}")
        assert await parted.wait_for_arrival(parted.redis, timeout_s=5)
        assert ids(await look(parted, f"b{number}", wait=0)) == [f"r{number}"]


async def test_a_partition_whose_server_is_away_is_left_out_and_comes_back(
    redis_servers: Servers, server: Server
) -> None:
    """Two servers, as in a cluster; the second is stopped and started again."""
    away = Server(redis_servers.binaries[server.version], server.version)
    away.start()
    try:
        urls = (server.url, away.url)
        parts = [Queue(open_redis(url), f"busload:{number}", patience_s=0.0) for number, url in enumerate(urls)]
        queue = PartitionedQueue(parts, patience_s=0.0)
        ours, theirs = ids_in(0, 2, 2), ids_in(1, 2, 2)
        await submit(queue, *ours, *theirs)
        away.stop()
        record = WorkerInfo(name="w", state="ready")
        mine = await board(queue, "b1", cap=1)
        assert ids(mine) == ours[:1]
        assert await queue.renew([mine.batch, "gone/0", "unheard/1"], lease_ms=500) == [True, False, True], (
            "kept so far"
        )
        assert await queue.heartbeat(record, ttl_s=15) == 1
        assert await queue.wait_for_arrival(queue.redis, timeout_s=1)
        assert ids(await board(queue, "b2", cap=1)) == ours[1:]
        with pytest.raises(BusloadUnavailable):
            await queue.info()
        with pytest.raises(BusloadUnavailable):
            await queue.status(theirs)
        away.start()
        rounds = queue._going()
        while 1 in rounds.absent:
            await rounds.absent._asking[1]
        assert isinstance(await look(queue, "b3", drain=True), NotYet), "it was started anew, and is empty"
        await submit(queue, *theirs)
        assert ids(await board(queue, "b4")) == theirs
        await queue.close()
    finally:
        away.remove()
