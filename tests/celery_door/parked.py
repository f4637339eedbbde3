"""The scripts of parked tickets, each called once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from busload_shared.parking import Parking, Ticket
from busload_shared.queue import Queue

TICKET = Ticket("celery:t", "celery:t:0")


def parking_calls(queue: Queue) -> dict[str, Callable[[], Awaitable[object]]]:
    """By the script's name, in the order of a ticket's life."""
    parking = Parking(queue.redis, queue.keys, patience_s=0.2)
    return {
        "park": lambda: parking.park(TICKET, b"m", look_ms=0, ttl_s=60, tell=True),
        "parked_due": lambda: parking.due(at_most=1, look_ms=1),
        "parked_claim": lambda: parking.claim([TICKET], lease_ms=1000),
        "parked_begin": lambda: parking.begin(TICKET, "r", lease_ms=1000),
        "parked_settle": lambda: parking.settle(*TICKET),
    }
