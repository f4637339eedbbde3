"""A caller that gave up submits again under the same id, as the contract says, while its first try is on its way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.queue.desk import Desk, becomes
from tests.redis_servers import Server

from busload import AsyncClient, BusloadUnavailable, RequestUnknown

QUEUE = "busload:test"


async def depth(desk: Desk) -> int:
    return (await desk.queue.info()).waiting


async def test_an_id_on_its_way_twice_is_not_unknown_when_the_first_try_fails(any_server: Server) -> None:
    async with AsyncClient(any_server.url, queue=QUEUE, patience_s=20) as client, Desk(any_server.url, QUEUE) as desk:
        await client.queue_info()
        assert client._wiring is not None
        outbox, waiting = client._wiring._outbox, client._wiring.waiting
        send, called, go_on = outbox._call, asyncio.Semaphore(0), asyncio.Semaphore(0)
        calls = 0

        async def slow(requests: list[Any]) -> Any:
            nonlocal calls
            calls += 1
            called.release()
            await go_on.acquire()
            if calls == 1:
                raise BusloadUnavailable("Redis is away")
            return await send(requests)

        outbox._call = slow
        first = asyncio.create_task(client.generate(id="own", prompt="p"))
        await called.acquire()
        first.cancel()
        again = asyncio.create_task(client.generate(id="own", prompt="p"))
        await asyncio.sleep(0)
        go_on.release()
        await called.acquire()  # the first try has failed
        waiting.look_up(("own",))  # as after a reconnect
        state = (await client.status("own")).state
        too_soon = again.done()
        go_on.release()
        assert (state, too_soon) == ("unknown", False)
        await desk.answer_next()
        assert (await again).text == "p!"


async def test_an_answer_older_than_the_request_does_not_say_it_is_unknown(any_server: Server) -> None:
    async with AsyncClient(any_server.url, queue=QUEUE, patience_s=20) as client, Desk(any_server.url, QUEUE) as desk:
        await client.queue_info()
        assert client._wiring is not None
        scripts = client._wiring.queue._scripts
        status, asked, go_on = scripts["status"], asyncio.Event(), asyncio.Event()

        async def slow(**call: Any) -> object:
            answer = await status(**call)
            asked.set()
            await go_on.wait()
            return answer

        scripts["status"] = slow  # type: ignore[assignment]
        before = asyncio.create_task(client.result("own"))
        await asked.wait()
        since = asyncio.create_task(client.generate(id="own", prompt="p"))
        await becomes(lambda: depth(desk), 1)
        go_on.set()
        with pytest.raises(RequestUnknown):
            await before
        await desk.answer_next()
        assert (await since).text == "p!"
