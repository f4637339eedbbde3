"""Hostile elements in Redis itself: no script that touches them keeps everybody else waiting."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from tests.hostile.junk import MEGABYTE
from tests.queue.steps import board

from busload_shared.queue import Queue

READS = 3
"""A script may take as long as reading a megabyte of small values takes so often: it reads one once, and copies it."""

COPIES = 6
"""What is too large to be read is copied only. One reading of it is a copy into Lua and a look at each byte."""

MANY = 32
"""Elements at once; half of the time to read them all is too long."""

TRIES = 6
"""The quickest of some tries is what a script needs: another's load costs time in the caches too."""

ELEMENTS = {
    "digits for an arrival": b"@" + b"1" * MEGABYTE,
    "digits behind the point": b"@1." + b"1" * MEGABYTE,
    "spaces": b"@1.0 0 0 " + b" " * MEGABYTE,
    "a long reply": b"@1.0 0 0 " + b"x" * MEGABYTE + b" a {}",
    "a long id": b"@1.0 0 0 a " + b"x" * MEGABYTE + b" {}",
    "a long group mark": b"=" + b"1" * MEGABYTE + b" {}",
    "5,000 deep": b"[" * 5000 + b"]" * 5000,
    "as deep as cjson goes": b'{"id":' * 999 + b"1" + b"}" * 999,
    "numbers": b'{"id":"a","prompt":[' + b"1," * (MEGABYTE // 2 - 20) + b"1]}",
    "lists": b'{"id":"a","prompt":[' + b"[]," * (MEGABYTE // 3 - 20) + b"1]}",
    "objects": b'{"id":"a","prompt":[' + b"{}," * (MEGABYTE // 3 - 20) + b"1]}",
    "keys": b'{"id":"a",' + b",".join(b'"k%06d":1' % at for at in range(80_000)) + b"}",
    "escapes": b'{"id":"a","prompt":"' + b"\\u0041" * (MEGABYTE // 6 - 20) + b'"}',
    "one number": b'{"id":"a","n":' + b"1" * MEGABYTE + b"}",
    "an exponent": b'{"id":"a","n":1e' + b"9" * MEGABYTE + b"}",
    "an id of 1 MB": b'{"id":"' + b"x" * (MEGABYTE - 20) + b'"}',
    "white space": b" " * MEGABYTE,
    "10 MB": b'{"id":"a","prompt":"' + b"x" * 10 * MEGABYTE + b'"}',
}


async def busy_ms(queue: Queue, call: Callable[[], Awaitable[object]]) -> float:
    """Processor time that Redis spends in this call, however busy the machine is."""
    before = await _processor_s(queue)
    await call()
    return (await _processor_s(queue) - before) * 1000


async def _processor_s(queue: Queue) -> float:
    info = await queue.redis.info("cpu")
    return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])


async def life(queue: Queue, *elements: bytes) -> list[float]:
    """Milliseconds of each script that an element meets: stamp, claim, release, claim again, audit, hand back."""
    await queue.redis.flushall()
    for element in elements:
        await queue.redis.lpush(queue.keys.queue, element)
    return [
        await busy_ms(queue, call)
        for call in (
            queue.stamp,
            lambda: board(queue, "b1"),
            lambda: queue.release("b1"),
            lambda: board(queue, "b2"),
            lambda: queue.audit(grace_ms=1000),
            lambda: queue.hand_back("b2"),
        )
    ]


async def reading_ms(queue: Queue, what: str) -> float:
    """Milliseconds that this Redis, on this machine as it is now, needs to take in an element and read it once."""
    read = "pcall(cjson.decode, ARGV[1])"
    return min([await busy_ms(queue, lambda: queue.redis.eval(read, 0, ELEMENTS[what])) for _ in range(TRIES)])


@pytest.mark.leaves_keys
@pytest.mark.parametrize("what", ELEMENTS)
async def test_an_element_of_a_megabyte_takes_no_script_long(real_queue: Queue, what: str) -> None:
    large = what == "10 MB"
    bound = COPIES * await reading_ms(real_queue, what) if large else READS * await reading_ms(real_queue, "lists")
    best = await life(real_queue, ELEMENTS[what])
    for _ in range(TRIES):
        if max(best) < bound:
            break
        best = [min(pair) for pair in zip(best, await life(real_queue, ELEMENTS[what]), strict=True)]
    assert max(best) < bound, best


@pytest.mark.leaves_keys
@pytest.mark.parametrize("what", ["numbers", "objects", "keys"])
async def test_many_of_them_at_once_are_not_all_read_in_one_call(real_queue: Queue, what: str) -> None:
    """Reading all of these would keep Redis busy for a second, and a thousand of them for half a minute."""
    best, bound = float("inf"), MANY / 2 * await reading_ms(real_queue, what)
    for _ in range(TRIES):
        await real_queue.redis.flushall()
        for _ in range(4):
            await real_queue.redis.lpush(real_queue.keys.queue, *[ELEMENTS[what]] * (MANY // 4))
        best = min(best, await busy_ms(real_queue, real_queue.stamp))
        if best < bound:
            break
    assert best < bound
