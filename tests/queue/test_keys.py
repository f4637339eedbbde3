"""All keys of a queue fall into one cluster slot, and odd names are refused."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from redis.crc import key_slot
from tests.conftest import missing
from tests.queue.steps import board, content, deliver, letter, push, result, states, submit
from tests.redis_servers import Server, Servers

from busload_shared.connection import open_redis
from busload_shared.errors import SettingsInvalid
from busload_shared.keys import Keys
from busload_shared.queue import Queue
from busload_shared.replies import WorkerInfo


def all_keys(keys: Keys, name: str) -> list[str]:
    """Every key and channel there is."""
    plain = [keys.queue, keys.retry, keys.inflight, keys.leases, keys.batches, keys.dead, keys.workers, keys.stats]
    named = [keys.result, keys.state, keys.cancel, keys.worker, keys.done, keys.reply]
    return plain + [key(name) for key in named] + [key("") for key in named]


@pytest.mark.parametrize("queue_name", ["busload:default", "q", "ünï", "a:b:c/d-e_f.g", "x" * 128, "[*?]"])
@pytest.mark.parametrize("name", ["42", "{other}", "a}b{c", "ünï", "}"])
def test_every_key_of_a_queue_is_in_the_slot_of_its_list(queue_name: str, name: str) -> None:
    """Q45."""
    slots = {key_slot(key.encode()) for key in all_keys(Keys(queue_name), name)}
    assert slots == {key_slot(queue_name.encode())}


@pytest.fixture
def cluster_node(redis_servers: Servers) -> Iterator[Server]:
    """A cluster of one node."""
    version = redis_servers.first()
    if version is None:
        missing("redis-server", "apt-get install redis-server")
    server = Server(redis_servers.binaries[version], version, {"cluster-enabled": "yes"})
    server.start()
    with server.client() as client:
        client.execute_command("CLUSTER", "ADDSLOTS", *range(16384))
        while client.execute_command("CLUSTER INFO")["cluster_state"] != "ok":
            time.sleep(0.01)
    yield server
    server.remove()


async def test_a_cluster_agrees_about_the_slots_and_runs_every_script(cluster_node: Server) -> None:
    """Q16, Q45."""
    redis = open_redis(cluster_node.url)
    queue = Queue(redis, "busload:default")
    slots = {await redis.execute_command("CLUSTER KEYSLOT", key) for key in all_keys(queue.keys, "a{b}c")}
    assert slots == {key_slot(b"busload:default")}
    await push(queue, "raw")
    await submit(queue, "a{b}c", "d")
    await queue.cancel("d", result=result("d", "cancelled"), ttl_s=60)
    await board(queue, "b1")
    await queue.renew(["b1"], lease_ms=10)
    await queue.audit(grace_ms=10)
    await queue.hand_back("b1")
    await board(queue, "b2")
    await queue.release("b2")
    assert await deliver(queue, await board(queue, "b3")) == [True]
    assert await deliver(queue, await board(queue, "b4")) == [True]
    await queue.heartbeat(WorkerInfo(name="w1", state="ready"), ttl_s=5)
    assert (await queue.info()).counters["succeeded"] == 2
    assert await queue.reclaim() == []
    assert not await queue.redrive(letter("d"))
    await redis.aclose()


def test_all_keys_differ() -> None:
    keys = all_keys(Keys("busload:default"), "a")
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("name", ["", "a{b", "a}b", "{a}", "a b", "a\nb", "a\x00b", "x" * 129, "\u2028"])
def test_a_name_that_would_split_the_keys_is_refused(name: str) -> None:
    with pytest.raises(SettingsInvalid, match="queue name"):
        Keys(name)


async def test_two_queues_on_one_redis_do_not_touch_each_other(queue: Queue) -> None:
    other = Queue(queue.redis, "busload:other", patience_s=0)
    other.now_ms = queue.now_ms
    await submit(other, "a")
    before = {key: value for key, value in (await content(queue)).items() if "other" in key}
    await submit(queue, "a")
    await deliver(queue, await board(queue, "b1"))
    after = {key: value for key, value in (await content(queue)).items() if "other" in key}
    assert after == before
    assert await states(other, "a") == ["waiting"]
    await other.redis.delete(other.keys.queue)


async def test_a_whole_life_leaves_only_keys_that_expire(queue: Queue) -> None:
    """Q41: the counters are the only thing that stays."""
    await submit(queue, "a", "b", "c", "d")
    await push(queue, "raw", b"junk")
    await queue.cancel("a", result=result("a", "cancelled"), ttl_s=60)
    await queue.cancel("never", result=b"{}", ttl_s=60)
    claim = await board(queue, "b1", cap=2)
    await queue.release("b1")
    for i in range(3):
        claim = await board(queue, f"c{i}")
        await deliver(queue, claim)
    left = {key for key in await content(queue) if await queue.redis.pttl(key) == -1}
    assert left == {queue.keys.stats}
