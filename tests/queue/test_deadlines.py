"""Deadlines while a request waits, whoever wrote it: it is answered `expired` at once, and never both ways."""

from __future__ import annotations

import json

import pytest
from tests.conftest import START_MS
from tests.listening import listen_to
from tests.queue.desk import Desk
from tests.queue.steps import board, body, deliver, ids, later, look, push, result, states, submit

from busload import AsyncClient, DeadlineUnmeetable
from busload_shared.curve import ServiceCurve
from busload_shared.queue import Queue
from busload_shared.replies import NotYet, WorkerInfo
from busload_shared.result import Result
from busload_shared.terms import Terms


async def with_terms(queue: Queue, name: str, terms: Terms, *, reply: str = "") -> None:
    await queue.submit([(name, body(name))], limit=100, reply=reply, terms={0: terms})


async def expire_all(queue: Queue) -> list[str]:
    due = await queue.overdue()
    await queue.expire({name: result(name, "expired", attempts=0) for name in due}, ttl_s=60)
    return due


async def test_a_request_is_overdue_from_its_deadline_on(queue: Queue) -> None:
    await with_terms(queue, "ttl", Terms(ttl_ms=100))
    await with_terms(queue, "deadline", Terms(deadline_ms=START_MS + 200))
    await submit(queue, "patient")
    assert await queue.overdue() == []
    later(queue, 100)
    assert await queue.overdue() == ["ttl"]
    later(queue, 100)
    assert await queue.overdue() == ["ttl", "deadline"]


async def test_who_waited_past_the_deadline_is_answered_and_does_not_board(queue: Queue) -> None:
    await with_terms(queue, "late", Terms(ttl_ms=100), reply="me")
    await submit(queue, "fine")
    later(queue, 100)
    listener = queue.redis.pubsub()
    await listen_to(listener, queue.keys.done("late"), queue.keys.reply("me"))
    assert await expire_all(queue) == ["late"]
    assert await states(queue, "late", "fine") == ["answered", "waiting"]
    assert ids(await board(queue, "b1")) == ["fine"]
    heard = {}
    for _ in range(6):
        message = await listener.get_message(ignore_subscribe_messages=True, timeout=0.5)
        if message:
            heard[message["channel"].decode().rpartition(":")[2]] = message["data"]
    assert heard["late"] == b"expired"
    assert json.loads(heard["me"])[0]["status"] == "expired"
    await listener.aclose()  # type: ignore[no-untyped-call]


async def test_a_raw_request_has_its_deadline_from_its_stamp_on(queue: Queue) -> None:
    await push(queue, body("ttl", ttl_s=0.1), body("at", deadline=(START_MS + 100) / 1000), body("odd", ttl_s="x"))
    assert await queue.stamp()
    later(queue, 100)
    assert sorted(await queue.overdue()) == ["at", "ttl"]


async def test_who_boarded_is_no_longer_the_queues_to_expire(queue: Queue) -> None:
    await with_terms(queue, "a", Terms(ttl_ms=100))
    claim = await board(queue, "b1")
    later(queue, 200)
    assert await expire_all(queue) == []
    assert await queue.expire({"a": result("a", "expired")}, ttl_s=60) == 0, "nor if a worker asks late"
    assert await deliver(queue, claim) == [True]
    found = await queue.results(["a"])
    assert Result.model_validate_json(found[0] or b"").status == "succeeded"


async def test_expiring_again_changes_nothing(queue: Queue) -> None:
    await with_terms(queue, "a", Terms(ttl_ms=1))
    later(queue, 1)
    assert await queue.expire({"a": result("a", "expired", worker="w1")}, ttl_s=60) == 1
    assert await queue.expire({"a": result("a", "expired", worker="w2")}, ttl_s=60) == 0
    assert await queue.results(["a"]) == [result("a", "expired", worker="w1")]


async def test_an_id_that_no_result_could_bear_is_left_to_its_claim(queue: Queue) -> None:
    await push(queue, b'{"id":"\xff","prompt":"x","ttl_s":0.001}')
    await queue.stamp()
    later(queue, 10)
    assert await queue.overdue() == []
    assert await queue.redis.zcard(queue.keys.deadlines) == 0


async def test_a_suspect_expires_too(queue: Queue) -> None:
    await with_terms(queue, "a", Terms(ttl_ms=100))
    await board(queue, "b1", lease=10)
    later(queue, 20)
    await queue.reclaim()
    assert await queue.expire({"a": result("a", "expired")}, ttl_s=60) == 1
    assert isinstance(await look(queue, "b2", drain=True), NotYet)


def a_worker(**more: object) -> WorkerInfo:
    fields = {"name": "w", "state": "ready", "rows_per_s": 10.0, "max_batch_size": 8} | more
    return WorkerInfo.model_validate(fields)


CURVE = ServiceCurve(overhead_ms=300, prompt_ms=0, step_ms=10, token_ms=0)


async def test_a_deadline_that_the_workers_cannot_meet_is_refused_at_submit(client: AsyncClient, desk: Desk) -> None:
    await desk.queue.heartbeat(a_worker(curve=CURVE), ttl_s=60)
    await client.submit_many([{"id": f"r{i}", "prompt": "x"} for i in range(20)])  # 2 s of work
    with pytest.raises(DeadlineUnmeetable, match=r"hasty: not taken.* 2\.00 s away, .* 2\.\d+ s at least"):
        await client.submit(id="hasty", prompt="x", ttl_s=2)
    told = await client.submit_many([{"id": "calm", "prompt": "x", "ttl_s": 60}, {"id": "any", "prompt": "x"}])
    assert [one.state for one in told] == ["queued", "queued"]
    assert (await client.status("hasty")).state == "unknown"


async def test_a_batch_takes_its_time_even_when_nobody_waits(client: AsyncClient, desk: Desk) -> None:
    await desk.queue.heartbeat(a_worker(curve=CURVE), ttl_s=60)
    with pytest.raises(DeadlineUnmeetable):
        await client.submit(prompt="x", ttl_s=0.2)
    assert (await client.submit(prompt="x", ttl_s=5)).state == "queued"


async def test_without_figures_nothing_is_refused(client: AsyncClient) -> None:
    await client.submit_many([{"prompt": "x"} for _ in range(500)])
    assert (await client.submit(prompt="x", ttl_s=0.001)).state == "queued"


async def test_only_a_newcomer_is_refused(client: AsyncClient, desk: Desk) -> None:
    await client.submit(id="a", prompt="x")
    await desk.queue.heartbeat(a_worker(curve=CURVE), ttl_s=60)
    assert (await client.submit(id="a", prompt="x", ttl_s=0.1)).state == "waiting"
    await desk.answer_next()
    assert (await client.submit(id="a", prompt="x", ttl_s=0.1)).state == "answered"


async def test_the_good_of_one_call_pass_though_a_hopeless_one_is_among_them(client: AsyncClient, desk: Desk) -> None:
    await desk.queue.heartbeat(a_worker(curve=CURVE), ttl_s=60)
    with pytest.raises(DeadlineUnmeetable, match="2 requests were taken before this"):
        await client.submit_many(
            [{"id": "a", "prompt": "x"}, {"id": "no", "prompt": "x", "ttl_s": 0.1}, {"id": "b", "prompt": "x"}]
        )
    assert [status.state for status in await client.statuses(["a", "no", "b"])] == ["waiting", "unknown", "waiting"]
