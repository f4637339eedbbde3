"""The URLs of Sentinel and of a cluster, and that no connection to a server that is not ours any more is used again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis import exceptions
from redis.asyncio import Redis
from redis.asyncio.connection import SSLConnection
from redis.crc import key_slot
from tests.queue.actors import Actor, master_reply, slots_reply
from tests.queue.test_redis_errors import IN_A_SCRIPT
from tests.waiting import wait_until

from busload_shared import following
from busload_shared.connection import open_redis
from busload_shared.errors import SettingsInvalid

QUEUE = "busload:test"


@pytest.fixture
async def actors() -> AsyncIterator[list[Actor]]:
    made = [Actor() for _ in range(3)]
    servers = [await asyncio.start_server(actor.serve, "127.0.0.1", 0) for actor in made]
    for actor, server in zip(made, servers, strict=True):
        actor.port = server.sockets[0].getsockname()[1]
    yield made
    for server in servers:
        server.close()
    await asyncio.sleep(0)  # connections that a failed test left end first


@pytest.mark.parametrize(
    "reply",
    [
        "READONLY You can't write against a read only replica.",
        "READONLY You can't write against a read only replica. script: 0a9f75e9, on @user_script:1.",
        IN_A_SCRIPT + "READONLY You can't write against a read only replica.",
        "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
        "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
        "CLUSTERDOWN The cluster is down",
        "MOVED 866 10.0.0.1:6379",
        "ASK 866 10.0.0.1:6379",
        "LOADING Redis is loading the dataset in memory",
        "NOREPLICAS Not enough good replicas to write.",
    ],
)
async def test_a_connection_to_a_server_that_is_ours_no_longer_is_not_used_again(
    actors: list[Actor], reply: str
) -> None:
    """Behind a plain URL too: the name may lead elsewhere by now."""
    actor = actors[0]
    actor.replies[b"EVALSHA"] = f"-{reply}\r\n".encode()
    redis = open_redis(actor.url)
    for count in (1, 2, 3):
        with pytest.raises(exceptions.RedisError):
            await redis.evalsha("0" * 40, 0)
        assert actor.connections == count
    await redis.aclose()


@pytest.mark.parametrize("reply", ["TRYAGAIN Multiple keys request", "OOM command not allowed", "WRONGTYPE no"])
async def test_an_error_of_the_right_server_keeps_its_connection(actors: list[Actor], reply: str) -> None:
    actor = actors[0]
    actor.replies[b"EVALSHA"] = f"-{reply}\r\n".encode()
    redis = open_redis(actor.url)
    for _ in range(3):
        with pytest.raises(exceptions.ResponseError):
            await redis.evalsha("0" * 40, 0)
    assert actor.connections == 1
    await redis.aclose()


async def test_idle_connections_to_a_former_master_are_not_used_again(actors: list[Actor]) -> None:
    sentinel, old, new = actors
    sentinel.replies[b"SENTINEL"] = master_reply(old.port)
    redis = open_redis(f"redis+sentinel://127.0.0.1:{sentinel.port}/m")
    await asyncio.gather(*(redis.ping() for _ in range(5)))
    assert (old.connections, old.open) == (5, 5)
    sentinel.replies[b"SENTINEL"] = master_reply(new.port)
    old.replies[b"PING"] = b"-READONLY\r\n"
    with pytest.raises(exceptions.ReadOnlyError):
        await redis.ping()
    await asyncio.gather(*(redis.ping() for _ in range(5)))
    assert (old.connections, new.connections) == (5, 5)
    await redis.aclose()


async def test_the_node_of_the_slot_is_found_behind_a_dead_seed_and_followed(actors: list[Actor]) -> None:
    seed, old, new = actors
    slot = key_slot(QUEUE.encode())
    seed.replies[b"CLUSTER"] = slots_reply((0, slot - 1, seed), (slot, slot, old), (slot + 1, 16383, seed))
    redis = open_redis(f"redis+cluster://127.0.0.1:1,127.0.0.1:{seed.port}", queue=QUEUE)
    await redis.ping()
    assert old.words[-1] == [b"PING"]
    old.replies[b"PING"] = b"-MOVED 1 10.0.0.1:6379\r\n"
    seed.replies[b"CLUSTER"] = old.replies[b"CLUSTER"] = slots_reply((0, 16383, new), host="")  # its own host
    with pytest.raises(exceptions.MovedError):
        await redis.ping()
    await redis.ping()
    assert new.words[-1] == [b"PING"]
    await redis.aclose()


async def test_a_slot_nobody_serves_is_said(actors: list[Actor]) -> None:
    actors[0].replies[b"CLUSTER"] = slots_reply((0, 1, actors[1]))
    redis = open_redis(f"redis+cluster://127.0.0.1:{actors[0].port}", queue=QUEUE)
    with pytest.raises(exceptions.ConnectionError, match="no node serves the queue's slot"):
        await redis.ping()
    await redis.aclose()


async def test_many_that_ask_the_way_at_once_share_one_answer_or_one_failure(actors: list[Actor]) -> None:
    """However many wait for a Redis that is away, its sentinels are asked by one of them."""
    sentinel, redis_server, _ = actors
    sentinel.replies[b"SENTINEL"] = b"*-1\r\n"
    redis = open_redis(f"redis+sentinel://127.0.0.1:{sentinel.port}/m")
    failures = await asyncio.gather(*(redis.ping() for _ in range(50)), return_exceptions=True)
    assert {str(failure) for failure in failures} == {"no sentinel knows a master called 'm'"}
    assert sentinel.connections == 1
    sentinel.replies[b"SENTINEL"] = master_reply(redis_server.port)
    await asyncio.gather(*(redis.ping() for _ in range(50)))
    assert sentinel.connections == 2

    async def closed() -> bool:
        return sentinel.open == 0

    await wait_until(closed, what="no connection to a sentinel stays")
    await redis.aclose()


async def test_a_seed_that_hangs_does_not_hold_up_the_others(
    actors: list[Actor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "ASK_TIMEOUT_S", 0.1)
    monkeypatch.setattr(following.random, "sample", lambda known, _: known)
    hanging, sentinel, server = actors
    hanging.replies[b"SENTINEL"] = b""
    sentinel.replies[b"SENTINEL"] = master_reply(server.port)
    redis = open_redis(f"redis+sentinel://127.0.0.1:{hanging.port},127.0.0.1:{sentinel.port}/m")
    async with asyncio.timeout(4):
        await redis.ping()
    assert hanging.connections == 1
    await redis.aclose()


async def test_a_seed_with_old_news_is_not_asked_for_ever(actors: list[Actor]) -> None:
    stale, fresh, new = actors
    stale.replies |= {b"SENTINEL": master_reply(stale.port), b"GET": b"-READONLY\r\n"}
    fresh.replies[b"SENTINEL"] = master_reply(new.port)
    new.replies[b"GET"] = b"$4\r\nhere\r\n"
    redis = open_redis(f"redis+sentinel://127.0.0.1:{stale.port},127.0.0.1:{fresh.port}/m")
    found = [await asyncio.gather(redis.get("key"), return_exceptions=True) for _ in range(64)]
    assert found[-1] == [b"here"]
    await redis.aclose()


@pytest.mark.parametrize(
    "url",
    [
        "redis+sentinel://127.0.0.1:1",
        "redis+sentinel://127.0.0.1:1/",
        "redis+sentinel:///master",
        "redis+sentinel://a:1,,b:2/master",
        "redis+sentinel://a:port/master",
        "redis+sentinel://u:pa55/pa55@a:1/master",
        "redis+sentinel://a:1/master/x",
        "redis+sentinel://a:1/master?socket_timeout=pa55",
        "redis+cluster://a:1/1",
        "redis+cluster://",
        "redis+ring://a:1",
    ],
)
def test_a_url_that_leads_nowhere_is_refused_with_the_forms_there_are(url: str) -> None:
    with pytest.raises(SettingsInvalid, match=r"redis\+sentinel://HOST:PORT,HOST:PORT/MASTER/DB") as refused:
        open_redis(url, queue=QUEUE)
    assert "pa55" not in str(refused.value)


def test_a_cluster_url_needs_the_queue() -> None:
    with pytest.raises(SettingsInvalid):
        open_redis("redis+cluster://127.0.0.1:1")


@pytest.mark.parametrize(
    ("url", "seeds"),
    [
        ("redis+sentinel://a,b:1,[::1],[::2]:3/m", [("a", 26379), ("b", 1), ("::1", 26379), ("::2", 3)]),
        ("redis+cluster://a,b:1", [("a", 6379), ("b", 1)]),
    ],
)
async def test_ports_have_defaults_and_ipv6_is_read(url: str, seeds: list[tuple[str, int]]) -> None:
    redis = open_redis(url, queue=QUEUE)
    assert redis.connection_pool._route._seeds == seeds
    await redis.aclose()


async def test_the_querys_options_and_secrets_go_where_they_belong(tmp_path: Path) -> None:
    url = (
        "rediss+sentinel://us%3Aer:p%40ss@a:1/my%20master/2?sentinel_username=scout&sentinel_password=w%40tch"
        f"&socket_timeout=3&ssl_ca_certs={tmp_path}/ca.pem"
    )
    redis = open_redis(url)
    given = redis.connection_pool.connection_kwargs
    assert (given["username"], given["password"], given["db"], given["socket_timeout"]) == ("us:er", "p@ss", 2, 3.0)
    route = redis.connection_pool._route
    asking = route._options
    assert (asking["username"], asking["password"], asking["db"]) == ("scout", "w@tch", 0)
    assert route._master == "my master"
    assert asking["ssl_ca_certs"] == given["ssl_ca_certs"] == f"{tmp_path}/ca.pem"
    assert issubclass(asking["connection_class"], SSLConnection)
    assert issubclass(redis.connection_pool.connection_class, SSLConnection)
    await redis.aclose()


async def test_without_sentinels_own_secrets_the_masters_are_not_told_to_it() -> None:
    redis = open_redis("redis+sentinel://user:pass@a:1/m")
    asking: dict[str, Any] = redis.connection_pool._route._options
    assert (asking["username"], asking["password"]) == (None, None)
    await redis.aclose()


async def test_a_pool_shows_no_secret() -> None:
    redis: Redis = open_redis("redis+sentinel://user:pa55@a:1/m?sentinel_password=pa55")
    assert "pa55" not in repr(redis)
    await redis.aclose()
