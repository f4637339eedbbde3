"""What docs/celery.md gives a Celery application's Redis user is enough, and no more than a producer's otherwise."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.celery_door.parked import TICKET, parking_calls
from tests.redis_servers import Servers
from tests.trust.guarded import QUEUE, Guarded, guarded_by

from busload_shared import scripts
from busload_shared.connection import open_redis
from busload_shared.inbox import Inbox, LookAgain, Mail
from busload_shared.parking import LISTENERS, Parking
from busload_shared.queue import Queue

PAGE = Path(__file__).parents[2] / "docs" / "celery.md"


@pytest.fixture(params=["7.0", "8.2"])
def guarded(request: pytest.FixtureRequest, redis_servers: Servers) -> Iterator[Guarded]:
    with guarded_by(redis_servers, request.param) as server:
        yield server


async def test_a_producer_with_the_documented_lines_more_can_park_and_wake(guarded: Guarded) -> None:
    lines = re.findall(r"^  (\(\+.*\))$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert lines
    with guarded.client() as operator:
        operator.execute_command("ACL", "SETUSER", "producer", *(line.replace("$QUEUE", QUEUE) for line in lines))
    worker = Queue(open_redis(guarded.url_for("worker")), QUEUE)
    await scripts.load_all(worker.redis)
    queue = Queue(open_redis(guarded.url_for("producer")), QUEUE, patience_s=0.2)
    events = Inbox(queue.redis, queue.keys, LISTENERS).events()
    assert await anext(events) == LookAgain(None)
    told = {name: await call() for name, call in parking_calls(queue).items()}
    assert told == {
        "park": True,
        "parked_due": [TICKET],
        "parked_claim": [b"m"],
        "parked_begin": 1,
        "parked_settle": True,
    }
    assert await anext(events) == Mail([], [TICKET.request_id])
    parking = Parking(queue.redis, queue.keys, patience_s=0.2)
    await parking.published([TICKET], lease_ms=1)
    assert (await parking.request_of("t"), await parking.counts()) == (None, (0, 0))
    await events.aclose()
    await queue.redis.aclose()
    await worker.redis.aclose()
    assert not guarded.refusals()
