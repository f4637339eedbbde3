"""A caller that gave up submits again under the same id, as the contract says, while its first try is on its way."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.queue.desk import Desk
from tests.redis_servers import Server

from busload import AsyncClient

QUEUE = "busload:test"


async def test_an_id_on_its_way_twice_is_not_unknown_when_the_first_try_fails(any_server: Server) -> None:
    async with AsyncClient(any_server.url, queue=QUEUE, patience_s=0.01) as client, Desk(any_server.url, QUEUE) as desk:
        await client.queue_info()
        assert client._wiring is not None
        scripts, waiting = client._wiring.queue._scripts, client._wiring.waiting
        submit, called, go_on = scripts["submit"], asyncio.Semaphore(0), asyncio.Semaphore(0)
        tries = 0

        async def slow(**call: Any) -> object:
            nonlocal tries
            tries += 1
            called.release()
            await go_on.acquire()
            if tries == 1:
                raise ConnectionError("Redis is away")
            return await submit(**call)

        scripts["submit"] = slow  # type: ignore[assignment]
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
