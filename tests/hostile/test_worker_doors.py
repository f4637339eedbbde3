"""A worker under fire: hostile elements among good ones. Each good one is answered right, each hostile one is told."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any
from zlib import crc32

import pytest
from tests.hostile.junk import ODD, READABLE, UNKNOWN_FIELDS, UNREADABLE, body
from tests.waiting import wait_until
from tests.worker.conftest import QUEUE, Depot

from busload_shared.element import Element
from busload_shared.replies import Claim, Seat
from busload_worker.admission import admit_in_turns
from busload_worker.answers import Ride

ALL = [*UNREADABLE.values(), *(junk.element for junk in READABLE.values()), *ODD.values()]


OWN_IDS = {"nobody-home", "utf8", "\u2028\xa0"}
"""Ids of unreadable elements that a script could read, or that stand in their header: they have an error there."""


def echo(name: str) -> str:
    """How the fake engine's answer to `body(name)` begins."""
    return f"echo:{name}:{crc32(f'prompt of {name}'.encode()):08x}:0"


def rss() -> int:
    """Bytes of memory that this process holds now."""
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


async def fire(depot: Depot, hostile: Iterable[bytes], *, good: str, every: int = 3) -> list[str]:
    """Push hostile elements with a good request after every few; returns the ids of the good."""
    names: list[str] = []
    for number, element in enumerate(hostile):
        await depot.push(element)
        if number % every == 0:
            names.append(f"{good}-{number}")
            await depot.push(body(names[-1]))
    return names


async def check_good(depot: Depot, names: list[str]) -> None:
    for name, result in zip(names, await depot.results(*names), strict=True):
        assert result.status == "succeeded", (name, result.error)
        assert result.text.startswith(echo(name))


SHAPES: dict[str, dict[str, Any]] = {
    "plain": {"max_batch_size": 16},
    "by length": {"max_batch_size": 16, "order": "length"},
    "by weight": {"max_batch_size": 16, "max_batch_tokens": 60},
    "all at once": {"max_batch_size": 16, "release": "batch"},
    "one by one": {"max_batch_size": 1},
    "a wait of its own": {"max_batch_size": 16, "max_wait_ms": "auto"},
}
"""The ways in which a worker may form and release its batches."""


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("backlog", [False, True])
async def test_every_hostile_element_is_told_and_every_good_one_among_them_answered(
    depot: Depot, shape: str, backlog: bool
) -> None:
    if backlog:
        good = await fire(depot, ALL, good="good")
    worker = await depot.start(**SHAPES[shape])
    if not backlog:
        good = await fire(depot, ALL, good="good")

    await check_good(depot, good)
    for what, junk in READABLE.items():
        result = await depot.result(junk.id)
        assert (result.id, result.status) == (junk.id, "failed"), what
        assert result.error is not None
        assert result.error.code == junk.code, (what, result.error)
        assert 0 < len(result.error.message) < 600, what
    for name in ODD:
        assert (await depot.result(name)).status == "succeeded", name
    await depot.settled()
    letters = [letter.payload_bytes for letter in await depot.queue.dead_letters(count=1000)]
    for what, element in UNREADABLE.items():
        assert any(element.endswith(letter) for letter in letters), what
    assert len(letters) == len(UNREADABLE) + len(READABLE)
    assert worker.vitals.engine_restarts == 0
    assert worker.vitals.state == "ready"


async def test_no_hostile_element_leaves_a_result_under_an_id_that_is_not_its_own(depot: Depot) -> None:
    await depot.start(max_batch_size=16)
    await fire(depot, ALL, good="good")
    await depot.settled()
    prefix = depot.queue.keys.result("").encode()
    found = {key[len(prefix) :].decode() async for key in depot.redis.scan_iter(prefix + b"*", count=1000)}
    expected = {junk.id for junk in READABLE.values()} | set(ODD) | OWN_IDS
    assert {name for name in found if not name.startswith("good-")} == expected
    assert await depot.redis.exists(QUEUE) == 0


async def test_memory_and_time_stay_bounded_however_often_the_junk_comes(depot: Depot) -> None:
    """Three rounds after the first cost no memory that stays, and no more than seconds."""
    await depot.start(max_batch_size=16)
    await fire(depot, [*UNREADABLE.values(), *(junk.element for junk in READABLE.values())], good="warm")
    await depot.settled()
    before, began = rss(), time.process_time()
    for round_ in range(3):
        hostile = [*UNREADABLE.values(), *(junk.element for junk in READABLE.values())]
        await depot.queue.purge_dead()
        good = await fire(depot, hostile, good=f"round{round_}", every=10)
        await check_good(depot, good)
        await depot.settled()
    assert rss() - before < 100 << 20
    assert time.process_time() - began < 30


async def test_a_worker_under_fire_keeps_its_lease_and_is_not_taken_for_dead(depot: Depot) -> None:
    """Two workers; the junk is heavy for a parser. No batch changes hands, so nothing is counted as died."""
    heavy = [b'{"id":"h%d",' % at + UNKNOWN_FIELDS + b"}" for at in range(12)]
    first = await depot.start(max_batch_size=4, lease_s=15)
    second = await depot.start(max_batch_size=4, lease_s=15, worker_name="w2")
    good = await fire(depot, heavy, good="good")
    await check_good(depot, good)
    await depot.settled()
    assert first.vitals.leases_lost == second.vitals.leases_lost == 0
    assert "reclaimed" not in (await depot.queue.info()).counters


async def test_a_batch_of_heavy_rows_is_read_in_turns_with_the_rest_of_the_worker() -> None:
    heavy = b'{"id":"h",' + UNKNOWN_FIELDS + b"}"
    element = Element(1.0, 0, 0, "", "h", heavy)
    seats = tuple(Seat(at, element, False) for at in range(10))
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(others())
    admission = await admit_in_turns(Ride(Claim("b", 1.0, 1.0, 0, "full", seats), "w", size=10), 2.0)
    counting.cancel()
    assert len(admission.answers) == 10
    assert turns >= 5


async def test_random_bytes_by_the_thousand_hold_nobody_up(depot: Depot) -> None:
    await depot.start(max_batch_size=64)
    for number in range(8):
        await depot.push(*(os.urandom(length % 80) for length in range(250)), body(f"among-{number}"))
    await check_good(depot, [f"among-{number}" for number in range(8)])
    await depot.settled()
    assert await depot.redis.llen(depot.queue.keys.dead) == 2000


async def test_a_forged_reply_token_brings_its_owner_nothing_it_did_not_ask_for(depot: Depot) -> None:
    from busload import AsyncClient

    await depot.start()
    async with AsyncClient(depot.url, queue=QUEUE) as client:
        mine = await client.submit(id="mine", prompt="prompt of mine", max_tokens=4)
        assert (await client.result(mine.id)).text.startswith(echo("mine"))
        token = client._wires()._token
        await depot.push(b"@1.000 0 0 %b other " % token.encode() + body("other"))
        await depot.push(b"@1.000 0 0 %b mine2 " % token.encode() + body("liar"))
        await depot.settled()  # while it runs, the id is taken: whoever may push may do that to any id
        assert (await client.generate(id="mine2", prompt="prompt of mine2", max_tokens=4)).text.startswith(
            echo("mine2")
        )
        await depot.settled()


async def test_the_list_of_another_type_comes_and_goes_and_the_worker_goes_on(depot: Depot) -> None:
    await depot.start()
    wrong: list[Callable[[], Awaitable[Any]]] = [
        lambda: depot.redis.set(QUEUE, "junk"),
        lambda: depot.redis.hset(QUEUE, "junk", "junk"),
        lambda: depot.redis.zadd(QUEUE, {"junk": 1}),
    ]
    for number, spoil in enumerate(wrong):
        await spoil()
        await asyncio.sleep(0.1)
        await depot.redis.delete(QUEUE)
        await depot.push(body(f"after-{number}"))
        assert (await depot.result(f"after-{number}")).status == "succeeded"


async def test_wrong_types_in_the_keys_around_an_id_cost_only_that_id(depot: Depot) -> None:
    """Somebody with write access spoils the keys of one id: its neighbours are answered."""
    k = depot.queue.keys
    for key in (k.state("spoilt"), k.result("spoilt2"), k.cancel("spoilt3")):
        await depot.redis.hset(key, "junk", "junk")
    await depot.start(max_batch_size=8)
    await depot.push(body("a"), body("spoilt"), body("spoilt2"), body("spoilt3"), body("b"))
    await check_good(depot, ["a", "b"])

    async def gone() -> bool:
        return await depot.redis.exists(QUEUE, k.inflight, k.retry) == 0

    await wait_until(gone, what="nothing is left of the batch")
