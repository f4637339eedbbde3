"""The one subscription of a client: after each connect its owner is told to look, for messages are not kept."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from tests.redis_servers import Server

from busload_shared.connection import open_redis
from busload_shared.inbox import Inbox, LookAgain, Lost
from busload_shared.keys import Keys


async def test_after_each_connect_comes_a_look_at_all_keys(server: Server) -> None:
    """What was published between the loss and the new subscription comes by no other way but a slow timer."""
    redis = open_redis(server.url)
    inbox = Inbox(redis, Keys("busload:test"), "token")
    async with aclosing(inbox.events()) as events:
        for _ in range(3):
            assert await asyncio.wait_for(anext(events), 20) == LookAgain(None)
            server.kill_connections()
            assert isinstance(await asyncio.wait_for(anext(events), 20), Lost)
    await redis.aclose()


async def test_a_look_at_an_id_comes_once_its_channel_is_heard(server: Server) -> None:
    redis = open_redis(server.url)
    inbox = Inbox(redis, Keys("busload:test"), "token")
    async with aclosing(inbox.events()) as events:
        assert await asyncio.wait_for(anext(events), 20) == LookAgain(None)
        await inbox.watch(["a"])
        assert await asyncio.wait_for(anext(events), 20) == LookAgain(("a",))
    await redis.aclose()
