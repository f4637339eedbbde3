"""Steps that the queue's tests are written in."""

from __future__ import annotations

import json
from typing import Any

from busload_shared.queue import Queue
from busload_shared.replies import Claim, DeadLetter, Delivery, NotYet, Seat
from busload_shared.result import Result, ResultError, Status

WORKER = "w1"


def body(name: str, **more: Any) -> bytes:
    """The JSON of a request."""
    return json.dumps({"id": name, "prompt": "Hello", **more}).encode()


async def submit(queue: Queue, *names: str, limit: int = 1_000_000, reply: str = "") -> tuple[str, ...]:
    """Submit these ids in one call; what became of each."""
    sent = await queue.submit([(name, body(name)) for name in names], limit=limit, reply=reply)
    return sent.states


async def push(queue: Queue, *elements: str | bytes) -> None:
    """LPUSH as any language would; a str is an id."""
    raw = [body(element) if isinstance(element, str) else element for element in elements]
    await queue.redis.lpush(queue.keys.queue, *raw)


async def look(
    queue: Queue, batch: str, *, cap: int = 8, wait: float = 50, lease: float = 1000, drain: bool = False
) -> Claim | NotYet:
    """Ask for a batch."""
    return await queue.claim(batch, worker=WORKER, max_batch_size=cap, max_wait_ms=wait, lease_ms=lease, drain=drain)


async def board(queue: Queue, batch: str, *, cap: int = 8, lease: float = 1000) -> Claim:
    """A batch that leaves now, whatever waits."""
    claim = await look(queue, batch, cap=cap, lease=lease, drain=True)
    assert isinstance(claim, Claim), claim
    return claim


def ids(claim: Claim | NotYet) -> list[str]:
    """The ids of a batch's rows, in order; none when no batch left."""
    return [seat.element.id for seat in claim.seats] if isinstance(claim, Claim) else []


def result(name: str, status: Status = "succeeded", **more: Any) -> bytes:
    """A Result as a worker would write it."""
    return Result(id=name, status=status, **more).model_dump_json().encode()


def answer(seat: Seat, status: Status = "succeeded", *, worker: str = WORKER, letter: bytes = b"") -> Delivery:
    """The delivery of one row."""
    element = seat.element
    return Delivery(seat.position, element.id, status, element.reply, result(element.id, status, worker=worker), letter)


async def deliver(queue: Queue, claim: Claim, *, ttl: float = 60) -> list[bool]:
    """Answer every row of a batch."""
    return await queue.deliver(claim.batch, [answer(seat) for seat in claim.seats], ttl_s=ttl)


def letter(name: str | None, payload: bytes = b"{}") -> DeadLetter:
    """A dead letter."""
    text, is_base64 = DeadLetter.text_of(payload)
    return DeadLetter(
        id=name, code="poison", message="died alone twice", at_ms=1, enqueued_ms=0, attempts=2,
        batch="b", worker=WORKER, payload=text, payload_is_base64=is_base64,
    )  # fmt: skip


async def bury(queue: Queue, claim: Claim) -> list[bool]:
    """Give every row of a batch an error result and a dead letter."""
    error = ResultError(code="poison", message="died alone twice")
    rows = []
    for seat in claim.seats:
        name = seat.element.id
        dead = letter(name or None, seat.element.payload).model_dump_json().encode()
        rows.append(
            Delivery(seat.position, name, "failed", "", result(name, "failed", error=error) if name else b"", dead)
        )
    return await queue.deliver(claim.batch, rows, ttl_s=60)


async def states(queue: Queue, *names: str) -> list[str]:
    """Where each request is."""
    return [found.state for found in await queue.status(names)]


async def content(queue: Queue) -> dict[str, object]:
    """Everything in Redis, so that two moments can be compared."""
    redis, found = queue.redis, {}
    read = {
        "string": redis.get,
        "list": lambda key: redis.lrange(key, 0, -1),
        "hash": redis.hgetall,
        "stream": redis.xrange,
        "zset": lambda key: redis.zrange(key, 0, -1, withscores=True),
    }
    for key in sorted(await redis.keys("*")):
        kind = (await redis.type(key)).decode()
        found[key.decode()] = await read[kind](key)
    return found


def later(queue: Queue, ms: float) -> None:
    """Move the held clock."""
    assert queue.now_ms is not None
    queue.now_ms += ms
