"""When a batch has ended and somebody waits, the next is asked for first, and its answers are sent meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest
from tests.waiting import wait_until
from tests.worker.conftest import Depot
from tests.worker.test_ahead import until_alone, until_in_flight

from busload_shared.queue import Queue
from busload_shared.replies import Claim, Delivery
from busload_worker.outbox import Outbox

Make = Callable[..., dict[str, Any]]


class Calls:
    """The claims and deliveries that were sent, in order, and which claims came back with a batch."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []
        self.claimed: list[str] = []

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        claim, deliver = Queue.claim, Queue.deliver

        async def noted_claim(queue: Queue, batch: str, **named: Any) -> Any:
            self.sent.append(("claim", batch))
            look = await claim(queue, batch, **named)
            self.claimed += [batch] if isinstance(look, Claim) else []
            return look

        async def noted_deliver(queue: Queue, batch: str, *rows: Any, **named: Any) -> Any:
            self.sent.append(("deliver", batch))
            return await deliver(queue, batch, *rows, **named)

        monkeypatch.setattr(Queue, "claim", noted_claim)
        monkeypatch.setattr(Queue, "deliver", noted_deliver)

    def last(self, kind: str, batch: str) -> int:
        return max(at for at, sent in enumerate(self.sent) if sent == (kind, batch))


async def test_who_waits_is_claimed_before_the_last_answers_are_sent(
    depot: Depot, request_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Calls()
    calls.watch(monkeypatch)
    await depot.start(max_batch_size=4, fake_overhead_ms=400)
    await until_alone(depot)
    await depot.push(request_of("first"))
    await until_in_flight(depot, 1)
    looks = len(calls.sent)
    await depot.push(request_of("second"), request_of("third"))

    async def seen() -> bool:
        return len(calls.sent) >= looks + 2

    await wait_until(seen, what="the worker has seen that they wait")
    await depot.results("first", "second", "third")
    first, second = calls.claimed

    assert calls.last("claim", second) < calls.last("deliver", first)


async def test_after_memory_ran_out_nobody_is_claimed_by_the_limit_of_before(depot: Depot, request_of: Make) -> None:
    await depot.start(max_batch_size=8, fake_overhead_ms=200)
    await until_alone(depot)
    await depot.push(*[request_of(f"r{i}", metadata={"fake_oom_over": 2}) for i in range(8)])
    await until_in_flight(depot, 8)
    await depot.push(*[request_of(f"later{i}") for i in range(5)])

    later = await depot.results(*[f"later{i}" for i in range(5)])

    assert max(result.batch.size for result in later if result.batch) == 2


@pytest.mark.parametrize(("gives_way", "turns"), [(False, 1), (True, 2)])
async def test_answers_leave_in_the_first_turn_or_behind_a_claim(gives_way: bool, turns: int) -> None:
    sent: list[str] = []

    class Taking:
        async def deliver(self, batch: str, rows: list[Delivery], *, ttl_s: float) -> list[bool]:
            sent.append(batch)
            return [True] * len(rows)

    outbox = Outbox(cast(Queue, Taking()), "b", ttl_s=60, gives_way=lambda: gives_way)
    outbox.post([Delivery(0, "r0", "succeeded", "", b"{}")])
    needed = 0
    while not sent:
        await asyncio.sleep(0)
        needed += 1

    assert needed == turns
