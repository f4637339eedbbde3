"""What each role of ops/redis may not do: tried on real servers, with what it would read or destroy there."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import redis
from redis.exceptions import NoPermissionError, ResponseError
from tests.celery_door.parked import parking_calls
from tests.queue.steps import body, letter
from tests.trust.guarded import QUEUE, Guarded

from busload import AsyncClient, BusloadUnavailable
from busload_shared import scripts
from busload_shared.keys import Keys
from busload_shared.queue import Queue
from busload_shared.replies import Delivery

QueueAs = Callable[..., Queue]

OF_PRODUCERS = {"submit", "status", "cancel", "queue_info", "running"}

TRIED = """
LRANGE L 0 -1                       worker
LINDEX L -1                         worker
LPOP L                              -
RPOP L                              worker
LMOVE L L LEFT RIGHT                -
BLMOVE L L RIGHT RIGHT 0.01         worker
BLMOVE L other RIGHT RIGHT 0.01     -
BRPOP L 0.01                        -
LSET L 0 x                          worker
LREM L 1 x                          worker
LTRIM L 1 0                         worker
LINSERT L BEFORE x y                -
LPUSH L x                           producer worker
LLEN L                              producer worker
SORT L ALPHA                        -
COPY L K:result:r                   -
RENAME L K:result:r                 -
DUMP L                              -
GETRANGE K:result:r 0 -1            -
APPEND K:result:r x                 -
DEL L                               worker
UNLINK L                            -
EXPIRE L 1                          -
PEXPIRE L 1                         worker producer-on-6
SET L x                             worker producer-on-6
SET K:inflight x                    worker producer-on-6
SET K:dead x                        worker producer-on-6
SET K:worker:w1 x                   worker producer-on-6
GET K:worker:w1                     worker producer-on-6
MGET K:worker:w1                    producer worker
GET K:layout                        worker producer-on-6
SET K:layout 2                      worker producer-on-6
GET K:state:r                       producer worker analyst
GET K:result:r                      producer worker analyst
MGET K:result:r K:result:s          producer worker analyst
MGET K:result:r K:state:r           producer worker analyst
TTL K:result:r                      analyst
SET K:result:r x                    producer worker
SET K:cancel:r 1 EX 60              producer worker
DEL K:result:r                      worker
HGETALL K:inflight                  worker
HGET K:inflight b:0                 worker
HVALS K:inflight                    worker
HSCAN K:inflight 0                  -
HRANDFIELD K:inflight               worker
HKEYS K:inflight                    worker
HDEL K:inflight b:0                 worker
HSET K:inflight b:0 x               worker
HEXISTS K:inflight b:0              producer worker analyst
LRANGE K:retry 0 -1                 worker
LPUSH K:retry x                     worker producer-on-6
LRANGE K:dead 0 -1                  worker
LINDEX K:dead 0                     worker
ZRANGE K:ranked 0 -1                worker
ZPOPMIN K:ranked                    worker
ZSCAN K:ranked 0                    -
ZADD K:ranked 1 x                   producer worker
ZRANGEBYSCORE K:deadlines -inf inf  worker
ZADD K:leases 1 x                   worker producer-on-6
ZREM K:leases b                     worker
ZRANGE K:workers 0 -1               worker producer-on-7
SET K:past:w x EX 60                worker producer-on-6
MGET K:past:w                       worker producer-on-6
HGETALL K:stats                     worker producer-on-7
HVALS K:batches                     worker producer-on-7
KEYS *                              -
SCAN 0                              -
RANDOMKEY                           -
DBSIZE                              -
FLUSHALL                            -
FLUSHDB                             -
SWAPDB 0 1                          -
CONFIG GET *                        -
CONFIG SET maxmemory 1              -
CONFIG RESETSTAT                    -
INFO server                         worker
DEBUG SLEEP 0                       -
SHUTDOWN NOSAVE                     -
SAVE                                -
BGREWRITEAOF                        -
REPLICAOF 127.0.0.1 1               -
MONITOR                             -
CLIENT LIST                         -
CLIENT KILL TYPE normal             -
CLIENT PAUSE 1                      -
ACL LIST                            -
ACL GETUSER operator                -
ACL SETUSER intruder on nopass +@all -
ACL LOG                             -
MODULE LIST                         -
SLOWLOG GET                         -
LATENCY LATEST                      -
MEMORY USAGE L                      -
OBJECT ENCODING L                   -
CLUSTER RESET                       -
SCRIPT FLUSH                        -
SCRIPT KILL                         -
SCRIPT LOAD 'return 1'              worker
EVAL 'return 1' 0                   -
EVAL_RO 'return 1' 0                -
FUNCTION LIST                       -
FCALL f 0                           -
MULTI                               -
XADD K:inflight * a b               -
SUBSCRIBE K:done:r                  producer analyst
SUBSCRIBE K:reply:token             producer
SUBSCRIBE other                     -
PSUBSCRIBE K:done:*                 analyst
PSUBSCRIBE K:reply:*                -
PSUBSCRIBE *                        -
PUBSUB CHANNELS                     -
PUBLISH K:done:r x                  producer worker
PUBLISH K:reply:token x             producer worker
PUBLISH other x                     -
LPUSH busload:other x               -
LLEN busload:other                  -
GET {busload:other}:result:r        -
LRANGE busload:other 0 -1           -
GET other                           -
"""
"""A command, and who may; L is the queue's list, K what its other keys begin with."""


def attempts() -> Iterator[tuple[list[str], set[str]]]:
    """Each command as words, and the roles."""
    for line in TRIED.strip().splitlines():
        words = shlex.split(line)
        roles = {word for word in words if word in ("-", "worker", "producer", "analyst") or "producer-on" in word}
        yield [_key(word) for word in words[: len(words) - len(roles)]], roles - {"-"}


def _key(word: str) -> str:
    return QUEUE if word == "L" else word.replace("K:", "{" + QUEUE + "}:", 1) if word.startswith("K:") else word


def seed(guarded: Guarded) -> dict[bytes, bytes]:
    """Something of every kind; returns all there is, to compare."""
    k = Keys(QUEUE)
    with guarded.client() as redis:
        redis.flushall()
        redis.lpush(QUEUE, body("secret"))
        redis.lpush("busload:other", body("secret"))
        redis.rpush(k.dead, "{}")
        redis.rpush(k.retry, "=1 @1.000 1 0   {}")
        redis.hset(k.inflight, "b:0", "@1.000 0 0   {}")
        redis.hset(k.batches, mapping={"b": "1 full 1.000 w1", "b#left": "1"})
        redis.hset(k.stats, "succeeded", 1)
        redis.zadd(k.leases, {"b": 1e15})
        redis.zadd(k.ranked, {"@1.000 0 0   {}": 1})
        redis.zadd(k.deadlines, {"late": 1e15})
        redis.zadd(k.workers, {"w1": 1e15})
        redis.mset({k.worker("w1"): "{}", k.result("r"): "{}", k.state("r"): "w ", "other": "1"})
    return everything(guarded)


def everything(guarded: Guarded) -> dict[bytes, bytes]:
    """All keys with their values as Redis dumps them."""
    with guarded.client() as redis:
        return {key: redis.dump(key) for key in redis.keys("*")}


@contextmanager
def once(guarded: Guarded, role: str) -> Iterator[redis.Redis]:
    """A connection that is not used again: a command may change what it is for."""
    client = guarded.as_user(role)
    try:
        yield client
    finally:
        client.close()


@pytest.mark.parametrize("role", ["producer", "analyst", "worker"])
def test_a_role_may_do_its_work_and_nothing_else(guarded: Guarded, role: str) -> None:
    before, wrong = seed(guarded), []
    version = "6" if guarded.is_old else "7"
    for words, roles in attempts():
        allowed = role in roles or f"{role}-on-{version}" in roles
        with once(guarded, role) as redis:
            try:
                redis.execute_command(*words)
                refused = False
            except NoPermissionError:
                refused = True
            except ResponseError as error:
                refused = re.match("(?i)unknown command|DEBUG command not allowed", str(error)) is not None
        wrong += [" ".join(words)] if refused == allowed else []
        if allowed:
            before = seed(guarded)
    assert wrong == []
    assert everything(guarded) == before, "what was refused has changed something"


def test_nobody_gets_in_without_a_password(guarded: Guarded) -> None:
    with redis.Redis(port=guarded.port) as client, pytest.raises(redis.AuthenticationError):
        client.ping()
    wrong = redis.Redis(port=guarded.port, username="producer", password="guessed")
    with wrong as client, pytest.raises(redis.AuthenticationError):
        client.ping()


@pytest.mark.parametrize("name", sorted(set(scripts.names()) - OF_PRODUCERS))
async def test_a_producer_who_runs_a_workers_script_changes_nothing(
    guarded: Guarded, queue_as: QueueAs, name: str
) -> None:
    """Each first write of these scripts is one that producers may not do: Lua has no rollback."""
    before, queue, worker = seed(guarded), queue_as("producer"), queue_as("worker")
    await scripts.load_all(worker.redis)
    calls = {
        "stamp": queue.stamp,
        "claim": lambda: queue.claim("c", worker="x", max_batch_size=1, max_wait_ms=0, lease_ms=1),
        "renew": lambda: queue.renew(["b"], lease_ms=1),
        "deliver": lambda: queue.deliver("b", [Delivery(0, "r", "succeeded", "", b"{}")], ttl_s=60),
        "reclaim": queue.reclaim,
        "release": lambda: queue.release("b"),
        "hand_back": lambda: queue.hand_back("b"),
        "audit": lambda: queue.audit(grace_ms=1),
        "heartbeat": lambda: queue.farewell("w1"),
        "overdue": queue.overdue,
        "learn": lambda: queue.learn({"a": (1, 1.0, 1.0)}, kept_share=0.9, most_keys=1, ttl_s=60),
        "expire": lambda: queue.expire({"late": b"{}"}, ttl_s=60),
        "redrive": lambda: queue.redrive(letter("z", body("z"))),
    }
    calls |= parking_calls(queue)
    with pytest.raises(BusloadUnavailable, match="this Redis user may not do that: widen its ACL"):
        await calls[name]()
    assert everything(guarded) == before


@pytest.mark.parametrize("role", ["analyst", "producer"])
async def test_who_lacks_a_right_is_told_whose_work_it_is(guarded: Guarded, role: str) -> None:
    """Of another queue, so that a producer too is refused; and at once, whatever the patience."""
    async with AsyncClient(guarded.url_for(role), queue="busload:other", patience_s=30) as client:
        with pytest.raises(BusloadUnavailable, match="this Redis user may not do that: widen its ACL"):
            await asyncio.wait_for(client.submit(prompt="a secret prompt"), 15)


async def test_a_workers_own_script_is_bound_by_the_workers_rights(guarded: Guarded) -> None:
    seed(guarded)
    with guarded.as_user("worker") as redis:
        for text in ("return redis.call('FLUSHALL')", "return redis.call('GET', 'other')"):
            sha = redis.script_load(text)
            with pytest.raises(ResponseError, match=r"can't (run|access)|ACL failure"):
                redis.evalsha(sha, 0)
