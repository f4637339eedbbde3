"""AsyncClient on a real Redis: submitting, reading states, cancelling. Waiting has a file of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from tests.queue.desk import Desk
from tests.redis_servers import Server

from busload import (
    AsyncClient,
    BusloadError,
    BusloadUnavailable,
    QueueFull,
    Request,
    RequestInvalid,
    SettingsInvalid,
    Submission,
)
from busload_shared.replies import WorkerInfo

QUEUE = "busload:test"


@pytest.fixture
async def client(redis_url: str) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(redis_url, queue=QUEUE) as client:
        yield client


async def calls(desk: Desk) -> int:
    """Scripts run on the server since it was emptied of statistics."""
    stats = await desk.queue.redis.info("commandstats")
    return int(stats.get("cmdstat_evalsha", {"calls": 0})["calls"])


async def test_a_submitted_request_waits_in_the_queue_as_it_was_given(client: AsyncClient, desk: Desk) -> None:
    request = Request(id="a", prompt="Hello", max_tokens=5, metadata={"user": 7})
    assert await client.submit(request) == Submission("a", "queued")
    claim = await desk.claim()
    assert claim is not None
    assert json.loads(claim.seats[0].element.payload) == {
        "id": "a", "prompt": "Hello", "max_tokens": 5, "metadata": {"user": 7},
    }  # fmt: skip


async def test_fields_make_a_request_and_a_missing_id_is_made_up(client: AsyncClient) -> None:
    first = await client.submit(prompt="Hello", max_tokens=5)
    second = await client.submit({"prompt": "Hello", "stop": ["\n"]})
    assert len({first.id, second.id}) == 2
    assert (await client.status(first.id)).state == "waiting"


async def test_an_id_given_again_is_the_same_request(client: AsyncClient, desk: Desk) -> None:
    request = Request(id="a", prompt="Hello")
    states = [(await client.submit(request)).state, (await client.submit(request)).state]
    claim = await desk.claim()
    assert claim is not None
    states.append((await client.submit(request)).state)
    await desk.answer(claim)
    states.append((await client.submit(request)).state)
    assert states == ["queued", "waiting", "running", "answered"]
    assert (await client.queue_info()).waiting == 0


async def test_submits_of_one_turn_travel_in_one_call(client: AsyncClient, desk: Desk) -> None:
    await client.submit(prompt="connect first")
    await desk.queue.redis.config_resetstat()
    sent = await asyncio.gather(*(client.submit(id=f"r{i}", prompt="p") for i in range(100)))
    assert [submission.state for submission in sent] == ["queued"] * 100
    assert await calls(desk) == 1


async def test_gathered_submits_keep_their_order(client: AsyncClient, desk: Desk) -> None:
    await asyncio.gather(*(client.submit(id=f"r{i}", prompt="p") for i in range(500)))
    claim = await desk.claim(500)
    assert claim is not None
    assert [seat.element.id for seat in claim.seats] == [f"r{i}" for i in range(500)]


async def test_ten_thousand_requests_take_few_calls_and_keep_their_order(client: AsyncClient, desk: Desk) -> None:
    await desk.queue.redis.config_resetstat()
    sent = await client.submit_many(Request(id=f"r{i}", prompt="p" * 100) for i in range(10_000))
    assert [submission.id for submission in sent] == [f"r{i}" for i in range(10_000)]
    assert {submission.state for submission in sent} == {"queued"}
    assert await calls(desk) <= 10_000 / 64
    claim = await desk.claim(200)
    assert claim is not None
    assert [seat.element.id for seat in claim.seats] == [f"r{i}" for i in range(200)]


async def test_large_requests_travel_in_smaller_calls(client: AsyncClient, desk: Desk) -> None:
    sent = await client.submit_many(Request(id=f"r{i}", prompt="p" * 1_000_000) for i in range(20))
    assert {submission.state for submission in sent} == {"queued"}
    assert (await client.queue_info()).waiting == 20


async def test_a_full_queue_says_how_deep_it_is_and_how_long_to_wait(redis_url: str, desk: Desk) -> None:
    worker = WorkerInfo(name="w", state="ready", rows_per_s=0.5)
    await desk.queue.heartbeat(worker, ttl_s=60)
    async with AsyncClient(redis_url, queue=QUEUE, max_queue_length=2) as client:
        await client.submit_many([{"prompt": "p"}, {"prompt": "p"}])
        with pytest.raises(QueueFull, match=r"2 requests wait and the limit is 2; expected wait about 4\.0 s") as full:
            await client.submit(prompt="p")
        assert (full.value.depth, full.value.limit, full.value.expected_wait_s) == (2, 2, 4.0)
        with pytest.raises(QueueFull, match="add workers"):
            await client.generate(prompt="p")


async def test_without_a_worker_the_expected_wait_is_unknown(redis_url: str) -> None:
    async with AsyncClient(redis_url, queue=QUEUE, max_queue_length=1) as client:
        await client.submit(prompt="p")
        with pytest.raises(QueueFull, match="no worker is up") as full:
            await client.submit(prompt="p")
        assert full.value.expected_wait_s is None


async def test_many_that_do_not_all_fit_say_how_many_were_taken(redis_url: str) -> None:
    requests = [Request(id=f"r{i}", prompt="p") for i in range(2_000)]
    async with AsyncClient(redis_url, queue=QUEUE, max_queue_length=300) as client:
        with pytest.raises(QueueFull, match="300 requests were taken") as full:
            await client.submit_many(requests)
        assert full.value.depth == 300
        sent = await client.submit_many(requests, raise_when_full=False)
        assert [submission.state for submission in sent] == ["waiting"] * 300 + ["full"] * 1_700
        assert (await client.queue_info()).waiting == 300


async def test_one_bad_request_of_many_is_named_by_its_position(client: AsyncClient) -> None:
    with pytest.raises(RequestInvalid, match=r"2 requests were taken before this: request 2: .*max_tokens"):
        await client.submit_many([{"prompt": "a"}, {"prompt": "b"}, {"prompt": "c", "max_tokens": 0}, {"prompt": "d"}])
    assert (await client.queue_info()).waiting == 2


async def test_an_error_of_the_callers_iterable_comes_through(client: AsyncClient) -> None:
    def broken() -> object:
        yield {"prompt": "a"}
        raise OSError("the file is gone")

    with pytest.raises(OSError, match="the file is gone"):
        await client.submit_many(broken())


@pytest.mark.parametrize("name", ["", "a b", "a\n", "x" * 257, 5])
async def test_an_id_that_cannot_be_one_is_refused_everywhere(client: AsyncClient, name: str) -> None:
    for call in (client.result, client.status, client.cancel):
        with pytest.raises(RequestInvalid, match="id"):
            await call(name)
    for many in (client.results, client.statuses):
        with pytest.raises(RequestInvalid, match="id"):
            await many(["fine", name])


async def test_states_of_many_ids_come_in_their_order(client: AsyncClient, desk: Desk) -> None:
    await client.submit(id="answered", prompt="p")
    await desk.answer_next(ttl_s=60)
    await client.submit(id="running", prompt="p")
    claim = await desk.claim()
    await client.submit(id="waiting", prompt="p")
    found = await client.statuses(["waiting", "unknown", "answered", "running"])
    assert [status.state for status in found] == ["waiting", "unknown", "answered", "running"]
    assert found[2].result is not None
    assert found[2].result.text == "p!"
    assert claim is not None
    assert found[3].batch == claim.batch


async def test_results_there_are_now(client: AsyncClient, desk: Desk) -> None:
    await client.submit_many({"id": f"r{i}", "prompt": f"p{i}"} for i in range(300))
    await desk.answer(await desk.claim(200) or pytest.fail("nothing to claim"))
    found = await client.results([*(f"r{i}" for i in range(300)), "unknown"])
    assert [result.text for result in found if result] == [f"p{i}!" for i in range(200)]
    assert found[200:] == [None] * 101


async def test_cancel_in_each_state(client: AsyncClient, desk: Desk) -> None:
    assert await client.cancel("later") == "unknown"
    await client.submit(id="waiting", prompt="p")
    assert await client.cancel("waiting") == "cancelled"
    result = (await client.status("waiting")).result
    assert result is not None
    assert (result.status, result.attempts, result.worker) == ("cancelled", 0, None)
    assert result.error is not None
    assert result.error.code == "cancelled"
    assert await client.cancel("waiting") == "answered"
    await client.submit(id="running", prompt="p")
    claim = await desk.claim()
    assert claim is not None
    assert await client.cancel("running") == "running"
    assert await desk.queue.cancels(["running"]) == {"running"}
    await desk.answer(claim)
    assert await client.cancel("running") == "answered"
    await client.submit(id="later", prompt="p")
    claim = await desk.claim()
    assert claim is not None
    assert claim.seats[0].cancelled


async def test_no_key_stays_for_ever_once_all_is_answered(client: AsyncClient, desk: Desk) -> None:
    await client.submit_many([{"id": "a", "prompt": "p"}, {"id": "b", "prompt": "p"}])
    await client.cancel("b")
    await client.cancel("unknown")
    await desk.answer_next()
    redis, stats = desk.queue.redis, desk.queue.keys.stats.encode()
    lasting = [key for key in await redis.keys("*") if await redis.pttl(key) == -1]
    assert set(lasting) <= {stats}


async def test_redis_away_is_said_in_words_and_in_time(any_server: Server) -> None:
    any_server.stop()
    try:
        async with AsyncClient(any_server.url, queue=QUEUE, patience_s=0.2) as client:
            for call in (
                client.submit(prompt="p"),
                client.status("a"),
                client.queue_info(),
                client.generate(prompt="p"),
            ):
                with pytest.raises(BusloadUnavailable, match="see that it runs"):
                    await call
            with pytest.raises(BusloadUnavailable, match="0 requests were taken"):
                await client.submit_many({"prompt": "p"} for _ in range(2_000))
    finally:
        any_server.start()


async def test_a_call_survives_a_short_outage(any_server: Server) -> None:
    async with AsyncClient(any_server.url, queue=QUEUE, patience_s=20) as client:
        await client.submit(id="before", prompt="p")
        any_server.stop()
        sent = asyncio.ensure_future(client.submit(id="after", prompt="p"))
        await asyncio.wait([sent], timeout=0.1)
        assert not sent.done()
        any_server.start()
        assert await sent == Submission("after", "queued")


async def test_a_killed_connection_costs_nothing(client: AsyncClient, server: Server) -> None:
    for number in range(5):
        await client.submit(id=f"r{number}", prompt="p")
        server.kill_connections()
    assert (await client.queue_info()).waiting == 5


async def test_wrong_settings_are_refused_at_once() -> None:
    with pytest.raises(SettingsInvalid, match="redis_url"):
        AsyncClient("localhost")
    with pytest.raises(SettingsInvalid, match="queue name"):
        AsyncClient(queue="a{b}")


async def test_a_closed_client_says_so(redis_url: str) -> None:
    client = AsyncClient(redis_url, queue=QUEUE)
    await client.submit(prompt="p")
    await client.close()
    await client.close()
    with pytest.raises(BusloadError, match="closed"):
        await client.submit(prompt="p")


async def test_closing_sends_what_is_on_its_way(redis_url: str, desk: Desk) -> None:
    client = AsyncClient(redis_url, queue=QUEUE)
    sent = [asyncio.ensure_future(client.submit(id=f"r{i}", prompt="p")) for i in range(300)]
    await asyncio.sleep(0)
    await client.close()
    assert {(await submission).state for submission in sent} == {"queued"}
    assert (await desk.queue.info()).waiting == 300


async def test_ten_thousand_calls_use_a_few_connections(client: AsyncClient, desk: Desk) -> None:
    await asyncio.gather(*(client.submit(id=f"r{i}", prompt="p") for i in range(2_000)))
    await asyncio.gather(
        *(client.status(f"r{i}") for i in range(4_000)), *(client.cancel(f"r{i}") for i in range(4_000))
    )
    connections = await desk.queue.redis.client_list()
    assert len(connections) <= 12
