"""A Redis under Sentinel: client and worker go to the master, whichever it is by now."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest
from tests.conftest import missing
from tests.queue.actors import Actor, master_reply
from tests.queue.desk import Desk, becomes, listening, state
from tests.queue.load import Load, queue_at, settled, worker_on
from tests.redis_groups import MASTER, Sentinel, Watched, ask, until
from tests.redis_servers import WANTED, Server, Servers
from tests.waiting import wait_until

import busload.waiting
import busload_shared.inbox
from busload import AsyncClient, BusloadUnavailable, RequestUnknown

QUEUE = "busload:test"


@contextmanager
def a_watched(servers: Servers, version: str | None) -> Iterator[Watched]:
    if version is None or version not in servers:
        missing(f"redis-server {version}", WANTED[version or "7.0"])
    watched = Watched(servers.binaries[version], version)
    try:
        watched.start()
        yield watched
    finally:
        watched.remove()


@pytest.fixture
def watched(redis_servers: Servers) -> Iterator[Watched]:
    """A master with a replica and three sentinels."""
    with a_watched(redis_servers, redis_servers.first()) as watched:
        yield watched


@pytest.fixture(params=list(WANTED))
def each_watched(request: pytest.FixtureRequest, redis_servers: Servers) -> Iterator[Watched]:
    """The same, on each version."""
    with a_watched(redis_servers, request.param) as watched:
        yield watched


async def all_answered_once(url: str, load: Load) -> None:
    """What the old master lost is asked again under its id; then every id has one result, and nothing is left."""
    again = await load.client.submit_many([{"id": name, "prompt": f"prompt of {name}"} for name in load.results])
    assert {each.state for each in again} <= {"answered", "queued"}
    async for result in load.client.as_completed(list(load.results), 60):
        assert (result.status, f":{result.id}:" in result.text) == ("succeeded", True)
    async with queue_at(url, QUEUE) as queue:
        await settled(queue)
        assert None not in await queue.results(list(load.results))


async def test_a_killed_master_is_replaced_and_all_goes_on(each_watched: Watched) -> None:
    """Q21, Q22: what was acknowledged and not replicated is lost with the master, and asking again completes it."""
    watched = each_watched
    async with worker_on(watched.url, QUEUE) as worker, AsyncClient(watched.url, queue=QUEUE) as client:
        async with Load(client) as load:
            await load.goes_on()
            watched.first.stop()
            died = time.monotonic()
            until(lambda: watched.master() is watched.second, "the sentinels chose the replica")
            await load.goes_on()
            assert min(at for at in load.answered_at if at > died + 0.2) - died < 20
            watched.first.start()
            until(lambda: ask(watched.first, "ROLE")[0] == b"slave", "the old master follows the new one")
            await load.goes_on()
            await load.end()
        assert {type(error) for _, error in load.errors} <= {BusloadUnavailable, RequestUnknown}
        await all_answered_once(watched.url, load)
        assert worker.process.poll() is None


async def test_a_master_that_steps_down_alive_is_left(watched: Watched) -> None:
    """Q23: its connections live on and would only say READONLY."""
    async with worker_on(watched.url, QUEUE) as worker, AsyncClient(watched.url, queue=QUEUE) as client:
        async with Load(client) as load:
            await load.goes_on()
            ask(watched.sentinels[0], "SENTINEL", "FAILOVER", MASTER)
            until(lambda: ask(watched.first, "ROLE")[0] == b"slave", "the old master follows the new one")
            await load.goes_on()
            await load.end()
        await all_answered_once(watched.url, load)
        assert worker.process.poll() is None
    assert clients_of_ours(watched.first) == 0


def clients_of_ours(server: Server) -> int:
    """Connections of this test's client and worker; the sentinels' have names."""
    ours = ("evalsha", "blmove", "subscribe", "mget")
    with server.client() as client:
        return sum(each["cmd"] in ours and not each["name"] for each in client.client_list())


async def test_a_master_that_hangs_is_left(watched: Watched) -> None:
    """Its sockets stay open and say nothing. What it acknowledged is there: it is the same data."""
    async with worker_on(watched.url, QUEUE) as worker, AsyncClient(watched.url, queue=QUEUE) as client:
        async with Load(client) as load:
            await load.goes_on()
            watched.first.pause()
            until(lambda: watched.master() is watched.second, "the sentinels chose the replica")
            await load.goes_on()
            watched.first.resume()
            until(lambda: ask(watched.first, "ROLE")[0] == b"slave", "the old master follows the new one")
            await load.goes_on()
            await load.end()
        await all_answered_once(watched.url, load)
        assert worker.process.poll() is None


async def test_sentinels_that_are_down_are_passed_over_and_a_wrong_name_is_said(watched: Watched) -> None:
    async with AsyncClient(watched.url.replace(MASTER, "nobody"), queue=QUEUE, patience_s=0.1) as client:
        with pytest.raises(BusloadUnavailable, match="no sentinel knows a master called 'nobody'"):
            await client.queue_info()
    watched.sentinels[0].stop()
    watched.sentinels[2].stop()
    for _ in range(6):  # they are asked in random order
        async with AsyncClient(watched.url, queue=QUEUE, patience_s=0) as client:
            assert (await client.queue_info()).waiting == 0
    watched.sentinels[1].stop()
    async with AsyncClient(watched.url, queue=QUEUE, patience_s=0.1) as client:
        with pytest.raises(BusloadUnavailable, match="see that it runs"):
            await client.queue_info()


@pytest.fixture
def guarded(any_server: Server, redis_servers: Servers) -> Iterator[Sentinel]:
    """A sentinel that asks for a user and a password, over a master that asks for others."""
    sentinel = Sentinel(redis_servers.binaries[any_server.version], any_server.version, any_server)
    try:
        sentinel.start()
        ask(sentinel, "ACL", "SETUSER", "scout", "on", ">w@tch", "+@all")
        ask(sentinel, "ACL", "SETUSER", "default", "off")
        ask(any_server, "ACL", "SETUSER", "rider", "on", ">r:de", "~*", "&*", "+@all")
        yield sentinel
        ask(any_server, "ACL", "DELUSER", "rider")
    finally:
        sentinel.remove()


async def test_sentinel_and_master_have_users_and_passwords_of_their_own(guarded: Sentinel) -> None:
    """Neither is shown when the other is refused."""
    where = f"127.0.0.1:{guarded.port}/{MASTER}/3?sentinel_username=scout"
    async with AsyncClient(f"redis+sentinel://rider:r%3Ade@{where}&sentinel_password=w%40tch", queue=QUEUE) as client:
        assert (await client.queue_info()).waiting == 0
        assert client._wiring is not None
        assert {c["db"] for c in await client._wiring.queue.redis.client_list() if c["user"] == "rider"} == {"3"}
    for user, password in (("rider:r%3Ade", "wr0ng"), ("rider:wr0ng", "w%40tch")):
        url = f"redis+sentinel://{user}@{where}&sentinel_password={password}"
        async with AsyncClient(url, queue=QUEUE, patience_s=60) as client:
            with pytest.raises(BusloadUnavailable, match="user or password") as refused:
                await client.queue_info()
            assert not {"r:de", "w@tch", "wr0ng"} & set(str(refused.value).split())


@pytest.fixture
async def sentinel() -> AsyncIterator[Actor]:
    """Names the master that a test wants."""
    actor = Actor()
    listening = await asyncio.start_server(actor.serve, "127.0.0.1", 0)
    actor.port = listening.sockets[0].getsockname()[1]
    yield actor
    listening.close()


async def test_a_request_that_the_old_master_acknowledged_and_lost_is_told_and_completed_by_asking_again(
    any_server: Server, redis_servers: Servers, sentinel: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Q21. The new master is a copy from before the request came."""
    monkeypatch.setattr(busload.waiting, "TICK_S", 0.1)
    copy = Server(redis_servers.binaries[any_server.version], any_server.version)
    copy.start()
    try:
        sentinel.replies[b"SENTINEL"] = master_reply(any_server.port)
        async with AsyncClient(f"redis+sentinel://127.0.0.1:{sentinel.port}/m", queue=QUEUE, patience_s=20) as client:
            waiting = asyncio.create_task(client.generate(id="lost", prompt="p"))
            async with Desk(any_server.url, QUEUE) as desk:
                await becomes(lambda: state(client, "lost"), "waiting")
                await client.submit(id="also", prompt="p")
                assert await desk.claim() is not None
            sentinel.replies[b"SENTINEL"] = master_reply(copy.port)
            any_server.stop()
            with pytest.raises(RequestUnknown):
                await waiting
            async with Desk(copy.url, QUEUE) as desk:
                again = [asyncio.create_task(client.generate(id=name, prompt="p")) for name in ("lost", "also")]
                serving = asyncio.create_task(desk.serve())
                assert [(await task).text for task in again] == ["p!", "p!"]
                serving.cancel()
                assert (await desk.queue.info()).counters["succeeded"] == 2
    finally:
        copy.remove()
        any_server.start()


async def test_a_client_does_not_listen_for_ever_to_a_former_master_that_lives(
    any_server: Server, redis_servers: Servers, sentinel: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(busload.waiting, "TICK_S", 600)
    monkeypatch.setattr(busload_shared.inbox, "SILENCE_S", 0.2)
    new = Server(redis_servers.binaries[any_server.version], any_server.version)
    new.start()
    try:
        sentinel.replies[b"SENTINEL"] = master_reply(any_server.port)
        async with AsyncClient(f"redis+sentinel://127.0.0.1:{sentinel.port}/m", queue=QUEUE, patience_s=20) as client:
            async with Desk(any_server.url, QUEUE) as desk:
                asked = asyncio.create_task(client.generate(id="a", prompt="p"))
                await wait_until(lambda: listening(desk))
                await desk.answer_next()
                assert (await asked).text == "p!"
            ask(any_server, "REPLICAOF", "127.0.0.1", "1")
            sentinel.replies[b"SENTINEL"] = master_reply(new.port)
            async with Desk(new.url, QUEUE) as desk:
                asked = asyncio.create_task(client.generate(id="b", prompt="p"))
                await wait_until(lambda: listening(desk))
                await desk.answer_next()
                assert (await asked).text == "p!"
    finally:
        new.remove()
