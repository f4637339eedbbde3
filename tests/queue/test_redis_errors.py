"""Which errors of Redis pass by themselves, what is said of the others, and that no command is sent twice."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable

import pytest
from redis import exceptions
from redis._parsers.base import BaseParser
from tests.queue.steps import board, submit
from tests.redis_servers import Server

from busload_shared import connection
from busload_shared.connection import is_transient, open_redis, persist, unavailable, without_secrets
from busload_shared.errors import BusloadUnavailable, SettingsInvalid
from busload_shared.queue import Queue

IN_A_SCRIPT = "ERR Error running script (call to f_5332031c6b): @user_script:26: @user_script: 26: -"
"""How Redis 6.2 begins an error of a command inside a script."""

PASSING = [
    "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
    "READONLY You can't write against a read only replica.",
    "READONLY You can't write against a read only replica. script: 0a9f75e9, on @user_script:1.",
    IN_A_SCRIPT + "READONLY You can't write against a read only replica.",
    "LOADING Redis is loading the dataset in memory",
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    "CLUSTERDOWN The cluster is down",
    "CLUSTERDOWN Hash slot not served",
    "TRYAGAIN Multiple keys request during rehashing of slot",
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
    "NOSCRIPT No matching script. Please use EVAL.",
    "OOM command not allowed when used memory > 'maxmemory'.",
    "OOM command not allowed when used memory > 'maxmemory'. script: 0a9f75e9, on @user_script:1.",
    IN_A_SCRIPT + "OOM command not allowed when used memory > 'maxmemory'.",
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
    IN_A_SCRIPT + "MISCONF Errors writing to the AOF file: No space left on device",
    "NOREPLICAS Not enough good replicas to write.",
    "ERR max number of clients reached",
    "MOVED 866 10.0.0.1:6379",
    "ASK 866 10.0.0.1:6379",
]
LASTING = [
    "WRONGTYPE Operation against a key holding the wrong kind of value",
    "WRONGTYPE {q}:dead is a string, not a list; rename or delete it",
    IN_A_SCRIPT + "WRONGTYPE Operation against a key holding the wrong kind of value",
    "ERR unknown command 'LMOVE', with args beginning with: 'q' 'secret prompt'",
    "ERR Error compiling script (new function): user_script:1: '=' expected near 'OOM'",
    "NOAUTH Authentication required.",
    "WRONGPASS invalid username-password pair or user is disabled.",
    "NOPERM this user has no permissions to run the 'eval' command",
    "CROSSSLOT Keys in request don't hash to the same slot",
    "EXECABORT Transaction discarded because of previous errors.",
    "DENIED Redis is running in protected mode",
]


@pytest.mark.parametrize("reply", PASSING)
def test_these_replies_pass_by_themselves(reply: str) -> None:
    assert is_transient(BaseParser.parse_error(reply))


@pytest.mark.parametrize("reply", LASTING)
def test_these_replies_do_not(reply: str) -> None:
    assert not is_transient(BaseParser.parse_error(reply))


@pytest.mark.parametrize(
    "error",
    [
        exceptions.ConnectionError("Error 111 connecting to 127.0.0.1:6379."),
        exceptions.TimeoutError("Timeout reading from 127.0.0.1:6379"),
        exceptions.BusyLoadingError("Redis is loading the dataset in memory"),
        exceptions.MaxConnectionsError("Too many connections"),
        ConnectionResetError(104, "Connection reset by peer"),
        TimeoutError(),
        OSError("Name or service not known"),
    ],
)
def test_a_lost_connection_passes_by_itself(error: Exception) -> None:
    assert is_transient(error)


@pytest.mark.parametrize(
    "error", [exceptions.DataError("Invalid input"), exceptions.InvalidResponse("Protocol Error"), ValueError("x")]
)
def test_a_fault_of_the_program_does_not(error: Exception) -> None:
    assert not is_transient(error)


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        ("OOM command not allowed when used memory > 'maxmemory'.", "maxmemory"),
        (IN_A_SCRIPT + "OOM command not allowed when used memory > 'maxmemory'.", "maxmemory"),
        ("WRONGPASS invalid username-password pair", "user or password"),
        ("NOAUTH Authentication required.", "user or password"),
        ("NOPERM this user has no permissions to run the 'eval' command", "ACL"),
        ("WRONGTYPE {q}:dead is a string, not a list; rename or delete it", "rename or delete it"),
        ("LOADING Redis is loading the dataset in memory", "does not answer"),
        ("MOVED 866 10.0.0.1:6379", "redis+cluster://"),
    ],
)
def test_what_is_wrong_is_said_with_what_to_do(reply: str, says: str) -> None:
    assert says in str(unavailable(BaseParser.parse_error(reply)))


def test_what_redis_repeats_of_a_command_is_not_repeated() -> None:
    error = BaseParser.parse_error("ERR unknown command 'X', with args beginning with: 'my' 'secret prompt'")
    assert "secret" not in str(unavailable(error))


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://host:6379/0", "redis://host:6379/0"),
        ("redis://user:pa55@host:6379/0", "redis://host:6379/0"),
        ("rediss://:pa55@host/1?ssl_cert_reqs=none", "rediss://host/1"),
        ("redis://host/0?password=pa55", "redis://host/0"),
        ("unix://user:pa55@/run/redis.sock?db=1", "unix:///run/redis.sock"),
        ("redis://u:pa55/pa55@host:6379/0", "redis://host:6379/0"),
        ("redis://u:pa55@pa55@host/0", "redis://host/0"),
        ("redis://u:pa55#pa55@host/0", "redis://host/0"),
        ("u:pa55@host:6379", "host:6379"),
        ("redis://[u:pa55@::1/0", "redis://::1/0"),
        ("redis+sentinel://u:pa55@h1:1,h2:2/master/0?sentinel_password=pa55", "redis+sentinel://h1:1,h2:2/master/0"),
        ("redis+sentinel://h1:1/master?sentinel_password=pa@55", "redis+sentinel://…"),
        ("redis://u:pa?x=55@host/0", "redis://…"),
    ],
)
def test_a_url_is_shown_without_its_secrets(url: str, shown: str) -> None:
    assert without_secrets(url) == shown


@pytest.mark.parametrize(
    "url", ["http://u:pa55@host/0", "u:pa55@host:6379", "redis://u:pa55/pa55@host:6379/0", "redis://:pa55", ""]
)
def test_a_url_that_is_none_is_refused_without_its_secrets(url: str) -> None:
    with pytest.raises(SettingsInvalid, match="redis://USER:PASSWORD@HOST:PORT/DB") as refused:
        open_redis(url)
    assert "pa55" not in str(refused.value)


@pytest.mark.parametrize("url", ["redis://:pa55@127.0.0.1:1/0", "unix://:pa55@/nowhere/redis.sock"])
async def test_a_server_that_is_not_there_is_named_without_the_password(url: str) -> None:
    redis = open_redis(url)
    with pytest.raises(BusloadUnavailable, match="see that it runs") as error:
        await Queue(redis, "busload:test", patience_s=0).info()
    assert "pa55" not in str(error.value)
    await redis.aclose()


async def test_a_wrong_password_is_said_at_once_and_not_shown(any_server: Server) -> None:
    url = any_server.url.replace("redis://", "redis://nobody:pa55@")
    redis = open_redis(url)
    started = time.monotonic()
    with pytest.raises(BusloadUnavailable, match="user or password") as error:
        await Queue(redis, "busload:test", patience_s=60).info()
    assert "pa55" not in str(error.value)
    assert time.monotonic() - started < 30
    await redis.aclose()


async def test_a_queue_works_over_a_unix_socket(server: Server) -> None:
    redis = open_redis(server.unix_url)
    queue = Queue(redis, "busload:test")
    assert await submit(queue, "a") == ("queued",)
    await board(queue, "b1")
    await redis.aclose()


class Failing:
    """A call that raises `error` so many times, then answers; the clock moves by what is slept."""

    def __init__(self, error: Exception, times: int) -> None:
        self.error, self.left, self.calls = error, times, 0

    async def __call__(self) -> str:
        self.calls += 1
        if self.calls <= self.left:
            raise self.error
        return "answer"


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Sleeps that take no time but move the clock, all with full jitter."""
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(connection.asyncio, "sleep", sleep)
    monkeypatch.setattr(connection.time, "monotonic", lambda: 1000 + sum(pauses))
    monkeypatch.setattr(connection.random, "uniform", lambda low, high: high)
    return pauses


GONE = exceptions.ConnectionError("gone")


async def test_a_call_is_repeated_until_redis_answers(slept: list[float]) -> None:
    call = Failing(GONE, 3)
    assert await persist(call, patience_s=60) == "answer"
    assert call.calls == 4


async def test_the_pauses_grow_to_a_second_and_no_more(slept: list[float]) -> None:
    with pytest.raises(BusloadUnavailable):
        await persist(Failing(GONE, 10_000), patience_s=30)
    assert slept[:3] == [0.02, 0.04, 0.08]
    assert max(slept) == 1.0
    assert len(slept) < 40


@pytest.mark.parametrize("patience", [0.0, 0.1, 1.0, 5.0])
async def test_patience_ends_in_time(slept: list[float], patience: float) -> None:
    with pytest.raises(BusloadUnavailable, match="gone"):
        await persist(Failing(GONE, 10_000), patience_s=patience)
    assert sum(slept) <= patience


async def test_what_waiting_cannot_help_is_raised_at_once(slept: list[float]) -> None:
    call = Failing(exceptions.ResponseError("WRONGTYPE no"), 1)
    with pytest.raises(BusloadUnavailable):
        await persist(call, patience_s=60)
    assert (call.calls, slept) == (1, [])


async def test_a_fault_of_the_program_passes_through(slept: list[float]) -> None:
    with pytest.raises(ZeroDivisionError):
        await persist(Failing(ZeroDivisionError(), 1), patience_s=60)


def test_pauses_have_jitter() -> None:
    assert connection.random is random


class DeafServer:
    """Answers commands; drops the connection at the one called `drop`, and is silent at SLOW."""

    def __init__(self) -> None:
        self.seen: list[bytes] = []
        self.drop = b"GET"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readline():
                words = []
                for _ in range(int(head[1:])):
                    size = int((await reader.readline())[1:])
                    words.append((await reader.readexactly(size + 2))[:-2])
                self.seen.append(words[0])
                if words[0] == self.drop:
                    break
                if words[0] != b"SLOW":
                    writer.write(b"+OK\r\n")
        finally:
            writer.close()


@pytest.fixture
async def deaf() -> AsyncIterator[tuple[DeafServer, str]]:
    server = DeafServer()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    async with listening:
        yield server, f"redis://127.0.0.1:{port}/0"


@pytest.mark.parametrize("command", ["GET", "EVALSHA", "BLMOVE"])
async def test_a_command_whose_reply_is_lost_is_sent_once(deaf: tuple[DeafServer, str], command: str) -> None:
    """Q9: redis-py would send it eleven times."""
    server, url = deaf
    server.drop = command.encode()
    redis = open_redis(url)
    sends: dict[str, Callable[[], object]] = {
        "GET": lambda: redis.get("key"),
        "EVALSHA": lambda: redis.evalsha("0" * 40, 0),
        "BLMOVE": lambda: redis.blmove("a", "a", 1, "RIGHT", "RIGHT"),
    }
    with pytest.raises(exceptions.ConnectionError):
        await sends[command]()
    assert server.seen.count(command.encode()) == 1
    await redis.aclose()


async def test_a_command_that_times_out_is_sent_once(
    deaf: tuple[DeafServer, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, url = deaf
    monkeypatch.setattr(connection, "READ_TIMEOUT_S", 0.05)
    redis = open_redis(url)
    with pytest.raises(exceptions.TimeoutError):
        await redis.execute_command("SLOW")
    assert server.seen.count(b"SLOW") == 1
    await redis.aclose()
