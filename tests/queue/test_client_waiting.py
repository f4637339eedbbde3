"""AsyncClient on a real Redis: waiting always ends, with the result or with the error that says why not."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator

import pytest
from tests.queue.desk import Desk, assert_nobody_waits, becomes, listening, start, state, subscriptions
from tests.waiting import wait_until

from busload import (
    AsyncClient,
    BusloadError,
    RequestUnknown,
    Result,
    ResultExpired,
    ResultTimeout,
)

QUEUE = "busload:test"


async def test_generate_gives_the_answer(client: AsyncClient, desk: Desk) -> None:
    asked = asyncio.create_task(client.generate(prompt="Hello", max_tokens=3))
    await desk.answer_next()
    assert (await asked).text == "Hello!"


async def test_own_requests_need_no_channel_of_their_own(client: AsyncClient, desk: Desk) -> None:
    asked = [asyncio.create_task(client.generate(id=f"r{i}", prompt=f"{i}")) for i in range(50)]
    await wait_until(lambda: listening(desk))
    await becomes(lambda: desk.queue.redis.llen(QUEUE), 50)
    assert await subscriptions(desk) == []
    await desk.answer_next()
    assert [result.text for result in await asyncio.gather(*asked)] == [f"{i}!" for i in range(50)]


async def test_a_result_that_was_there_before_is_read_at_once(client: AsyncClient, desk: Desk) -> None:
    await client.submit(id="a", prompt="p")
    await desk.answer_next()
    assert (await client.result("a")).text == "p!"
    assert (await client.generate(id="a", prompt="p")).text == "p!"


async def test_a_result_of_another_client_is_waited_for(client: AsyncClient, desk: Desk, redis_url: str) -> None:
    async with AsyncClient(redis_url, queue=QUEUE) as other:
        await other.submit(id="a", prompt="p")
    waiting = start(client, "a")
    await wait_until(lambda: subscriptions(desk))
    await desk.answer_next()
    assert (await waiting).text == "p!"
    await becomes(lambda: subscriptions(desk), [])


async def test_an_id_nobody_knows_is_said_at_once_without_a_timeout(client: AsyncClient) -> None:
    with pytest.raises(RequestUnknown, match="nobody: nobody enqueued this id"):
        await client.result("nobody")


async def test_with_a_timeout_an_unknown_id_is_waited_for(client: AsyncClient, desk: Desk) -> None:
    with pytest.raises(RequestUnknown, match="nobody"):
        await client.result("nobody", 0.05)
    waiting = start(client, "raw", timeout_s=20)
    await wait_until(lambda: subscriptions(desk))
    await desk.queue.redis.lpush(QUEUE, b'{"id":"raw","prompt":"p"}')
    await desk.answer_next()
    assert (await waiting).text == "p!"


async def test_a_timeout_tells_where_the_request_is(
    client: AsyncClient, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("busload.async_client._LAST_LOOK_S", 20.0)  # what it tells, not how long it may take to
    await client.submit(id="a", prompt="p")
    with pytest.raises(ResultTimeout, match=r"a: no result within 0\.05 s; it is waiting"):
        await client.result("a", 0.05)
    claim = await desk.claim()
    assert claim is not None
    with pytest.raises(ResultTimeout, match="it is running"):
        await client.result("a", 0.05)
    await desk.answer(claim)
    assert (await client.result("a", 0)).text == "p!"


async def test_a_result_past_its_time_to_live_is_expired_not_unknown(client: AsyncClient, desk: Desk) -> None:
    await client.submit(id="a", prompt="p")
    await desk.answer_next(ttl_s=0.4)
    await becomes(lambda: state(client, "a"), "expired")
    for timeout_s in (None, 5.0):
        with pytest.raises(ResultExpired, match="a: the result has passed its time to live"):
            await client.result("a", timeout_s)


async def test_a_cancelled_request_ends_all_waits_for_it(client: AsyncClient, desk: Desk, redis_url: str) -> None:
    own = asyncio.create_task(client.generate(id="a", prompt="p"))
    await becomes(lambda: state(client, "a"), "waiting")
    async with AsyncClient(redis_url, queue=QUEUE) as other:
        foreign = start(other, "a")
        await becomes(lambda: subscriptions(desk), ["a"])
        assert await other.cancel("a") == "cancelled"
        assert [(await own).status, (await foreign).status] == ["cancelled", "cancelled"]
    assert (await client.result("a")).status == "cancelled"


async def test_any_number_of_waiters_share_one_connection(client: AsyncClient, desk: Desk) -> None:
    await client.submit_many({"id": f"r{i}", "prompt": "p"} for i in range(20))
    waiting = [start(client, f"r{i % 20}") for i in range(2_000)]
    await wait_until(lambda: listening(desk))
    subscribed = [one for one in await desk.queue.redis.client_list() if int(one["sub"]) > 0]
    assert len(subscribed) == 1
    await desk.answer_next()
    assert {result.text for result in await asyncio.gather(*waiting)} == {"p!"}


async def test_large_results_come_too(client: AsyncClient, desk: Desk) -> None:
    asked = [asyncio.create_task(client.generate(id=f"r{i}", prompt="p")) for i in range(3)]
    await desk.answer_next("x" * 300_000)
    assert [len((await one).text) for one in asked] == [300_000] * 3


async def test_results_nobody_waits_for_are_not_kept(client: AsyncClient, desk: Desk) -> None:
    await asyncio.gather(client.generate(id="first", prompt="p"), desk.answer_next())
    await client.submit_many({"id": f"r{i}", "prompt": "p"} for i in range(30))
    await desk.answer_next()
    await asyncio.gather(client.generate(id="last", prompt="p"), desk.answer_next())
    assert client._wiring is not None
    assert not client._wiring.waiting._own


async def test_waiters_that_give_up_leave_nothing_behind(client: AsyncClient, desk: Desk) -> None:
    await desk.queue.submit([(f"r{i}", b'{"id":"r%d","prompt":"p"}' % i) for i in range(100)], limit=1_000)
    late = [start(client, f"r{i}", timeout_s=0.3) for i in range(50)]
    gone = [start(client, f"r{i}") for i in range(50, 100)]
    await becomes(lambda: subscriptions(desk), sorted(f"r{i}" for i in range(100)))
    for task in gone:
        task.cancel()
    for outcome in await asyncio.gather(*late, *gone, return_exceptions=True):
        assert isinstance(outcome, ResultTimeout | asyncio.CancelledError)
    await becomes(lambda: subscriptions(desk), [])
    gc.collect()
    assert_nobody_waits(client)


async def test_a_caller_that_is_cancelled_leaves_its_request_as_it_is(client: AsyncClient, desk: Desk) -> None:
    asked = asyncio.create_task(client.generate(id="a", prompt="p"))
    await becomes(lambda: state(client, "a"), "waiting")
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    await desk.answer_next()
    assert (await client.result("a")).status == "succeeded"


async def test_results_come_as_they_are_done(client: AsyncClient, desk: Desk) -> None:
    await client.submit_many({"id": f"r{i}", "prompt": "p"} for i in range(200))
    results = client.as_completed([f"r{i}" for i in range(200)] * 2)
    seen = []
    for _ in range(4):
        claim = await desk.claim(50)
        assert claim is not None
        await desk.answer(claim)
        seen += [(await anext(results)).id for _ in range(50)]
    assert sorted(seen) == sorted(f"r{i}" for i in range(200))
    with pytest.raises(StopAsyncIteration):
        await anext(results)


async def test_bad_news_of_many_comes_last(client: AsyncClient, desk: Desk) -> None:
    await client.submit(id="good", prompt="p")
    await desk.answer_next()
    await client.submit(id="slow", prompt="p")
    got: list[str] = []
    with pytest.raises(RequestUnknown, match=r"nobody.*1 more ids failed"):
        await gather_names(client.as_completed(["nobody", "good", "noone"]), got)
    with pytest.raises(ResultTimeout, match=r"1 ids have no result within 0\.2 s: slow"):
        await gather_names(client.as_completed(["slow", "good"], 0.2), got)
    assert got == ["good", "good"]


async def gather_names(results: AsyncIterator[Result], names: list[str]) -> None:
    async for result in results:
        names.append(result.id)


async def test_an_iteration_left_early_leaves_nothing_behind(client: AsyncClient, desk: Desk) -> None:
    await client.submit_many({"id": f"r{i}", "prompt": "p"} for i in range(10))
    results = client.as_completed([f"r{i}" for i in range(10)])
    await desk.answer(await desk.claim(2) or pytest.fail("nothing to claim"))
    await anext(results)
    await results.aclose()
    assert_nobody_waits(client)


async def test_closing_ends_all_waits(redis_url: str) -> None:
    client = AsyncClient(redis_url, queue=QUEUE)
    asked = asyncio.create_task(client.generate(id="own", prompt="p"))
    await becomes(lambda: state(client, "own"), "waiting")
    await client.close()
    with pytest.raises(BusloadError, match="own: the client was closed"):
        await asked
