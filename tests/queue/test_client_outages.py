"""AsyncClient on a real Redis that fails: no result is lost, and every wait ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.queue.desk import Desk, becomes, listening, start, state, subscriptions
from tests.redis_servers import Server
from tests.waiting import wait_until

import busload.waiting
from busload import AsyncClient, BusloadError, BusloadUnavailable, Request, RequestUnknown, Result, ResultTimeout

QUEUE = "busload:test"


@pytest.mark.parametrize("kind", ["pubsub", "normal"])
async def test_a_killed_connection_loses_no_result(client: AsyncClient, desk: Desk, kind: str) -> None:
    await desk.queue.submit([("foreign", b'{"id":"foreign","prompt":"p"}')], limit=10)
    waiting = [start(client, "foreign"), asyncio.create_task(client.generate(id="own", prompt="p"))]
    await becomes(lambda: subscriptions(desk), ["foreign"])
    await becomes(lambda: state(client, "own"), "waiting")
    redis = desk.queue.redis
    await redis.execute_command("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
    await desk.answer_next()
    assert [(await task).text for task in waiting] == ["p!", "p!"]


async def test_results_that_come_while_the_subscription_is_down_are_found(client: AsyncClient, desk: Desk) -> None:
    asked = asyncio.create_task(client.generate(id="own", prompt="p"))
    await becomes(lambda: state(client, "own"), "waiting")
    claim = await desk.claim()
    assert claim is not None
    async with desk.queue.redis.pipeline(transaction=True) as both:  # nobody listens when it is published
        both.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
        both.set(desk.queue.keys.result("own"), Result(id="own", status="succeeded").model_dump_json(), px=60_000)
        await both.execute()
    assert (await asked).id == "own"


async def test_a_lost_message_is_found_by_the_slow_timer(
    client: AsyncClient, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(busload.waiting, "TICK_S", 0.05)
    asked = asyncio.create_task(client.generate(id="own", prompt="p"))
    await becomes(lambda: state(client, "own"), "waiting")
    await desk.queue.redis.set(
        desk.queue.keys.result("own"), Result(id="own", status="failed").model_dump_json(), px=60_000
    )
    assert (await asked).status == "failed"


async def test_a_request_that_redis_lost_is_said_so(
    client: AsyncClient, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(busload.waiting, "TICK_S", 0.05)
    asked = asyncio.create_task(client.generate(id="own", prompt="p"))
    await becomes(lambda: state(client, "own"), "waiting")
    await desk.queue.redis.flushall()
    with pytest.raises(RequestUnknown, match="own"):
        await asked


async def test_waiting_survives_a_restart_of_redis(any_server: Server) -> None:
    async with AsyncClient(any_server.url, queue=QUEUE, patience_s=20) as client, Desk(any_server.url, QUEUE) as desk:
        asked = asyncio.create_task(client.generate(id="own", prompt="p"))
        await becomes(lambda: state(client, "own"), "waiting")
        await wait_until(lambda: listening(desk))
        any_server.restart(keep=True)
        await desk.answer_next()
        assert (await asked).text == "p!"


async def test_waiting_ends_when_redis_stays_away(any_server: Server) -> None:
    async with AsyncClient(any_server.url, queue=QUEUE, patience_s=0.3) as client, Desk(any_server.url, QUEUE) as desk:
        asked = asyncio.create_task(client.generate(id="own", prompt="p"))
        await becomes(lambda: state(client, "own"), "waiting")
        await wait_until(lambda: listening(desk))
        any_server.stop()
        try:
            with pytest.raises(BusloadUnavailable, match="own: "):
                await asked
        finally:
            any_server.start()


async def test_an_unreadable_result_spoils_only_its_own_wait(client: AsyncClient, desk: Desk) -> None:
    await client.submit_many([Request(id="good", prompt="p"), Request(id="bad", prompt="p")])
    waiting = [start(client, "good"), start(client, "bad")]
    await wait_until(lambda: listening(desk))
    redis, keys = desk.queue.redis, desk.queue.keys
    await redis.set(keys.result("bad"), '{"id":"bad","status":"flying"}', px=60_000)
    await redis.publish(next(iter(await redis.pubsub_channels("*:reply:*"))), b'[{"id":"bad","status":"flying"}]')
    with pytest.raises(BusloadError, match=r"bad: this version cannot read the stored result \(status"):
        await waiting[1]
    await desk.answer_next()
    assert (await waiting[0]).text == "p!"
    with pytest.raises(BusloadError, match="cannot read"):
        await client.status("bad")


async def test_a_lost_reply_to_a_submit_changes_nothing(client: AsyncClient, desk: Desk) -> None:
    await client.queue_info()
    assert client._wiring is not None
    scripts = client._wiring.queue._scripts
    submit, lost = scripts["submit"], []

    async def lose_the_first_reply(**call: Any) -> object:
        reply = await submit(**call)
        if not lost:
            lost.append(reply)
            raise ConnectionError("the reply is lost")
        return reply

    scripts["submit"] = lose_the_first_reply  # type: ignore[assignment]
    asked = asyncio.create_task(client.generate(id="own", prompt="p"))
    await becomes(lambda: subscriptions(desk), ["own"])
    assert (await client.queue_info()).waiting == 1
    await desk.answer_next()
    assert (await asked).text == "p!"


async def test_a_user_who_may_not_listen_is_told_so(redis_url: str, desk: Desk) -> None:
    redis = desk.queue.redis
    await redis.execute_command("ACL", "SETUSER", "deaf", "on", ">secret", "~*", "+@all", "resetchannels")
    try:
        url = redis_url.replace("redis://", "redis://deaf:secret@")
        async with AsyncClient(url, queue=QUEUE) as client:
            with pytest.raises(BusloadUnavailable, match="widen its ACL") as refused:
                await client.generate(prompt="p")
            assert "secret" not in str(refused.value)
    finally:
        await redis.execute_command("ACL", "DELUSER", "deaf")


async def test_a_server_that_does_not_answer_does_not_hang_the_client(any_server: Server) -> None:
    async with AsyncClient(any_server.url, queue=QUEUE, patience_s=0.1) as client:
        await client.submit(id="a", prompt="p")
        any_server.pause()
        with pytest.raises(ResultTimeout, match=r"a: no result within 0\.1 s"):
            await client.result("a", 0.1)
        any_server.resume()
        assert (await client.status("a")).state == "waiting"
