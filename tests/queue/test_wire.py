"""Replies are read where the bytes come in: in pieces, many at once, late, unasked, from a server that is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager

import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError, InvalidResponse, ResponseError, TimeoutError
from tests.redis_servers import Server

from busload_shared import connection
from busload_shared.connection import open_redis
from busload_shared.inbox import Inbox, LookAgain, Mail
from busload_shared.keys import Keys
from busload_shared.lines import Lines
from busload_shared.packing import Direct

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

MAIL = b'[{"v":1,"id":"a","status":"expired"}]'


@asynccontextmanager
async def answering(answer: Answer) -> AsyncIterator[Redis]:
    """A client of a server that greets as Redis does, and then answers each command by `answer`."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while command := await reader.read(100_000):
                greetings = command.count(b"SETINFO")
                writer.write(b"+OK\r\n" * greetings)
                if not greetings:
                    await answer(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    redis = open_redis(f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    try:
        yield redis
    finally:
        await redis.aclose()
        server.close()


async def call(redis: Redis) -> object:
    return await Lines(redis).evalsha("0" * 40, 0)


async def test_a_reply_in_pieces_is_one_reply() -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for piece in (b"*2\r\n$3\r", b"\nabc\r\n:", b"7\r\n"):
            writer.write(piece)
            await asyncio.sleep(0.01)

    async with answering(answer) as redis:
        assert await call(redis) == [b"abc", 7]


async def test_each_read_has_its_own_time_though_one_timer_serves_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "READ_TIMEOUT_S", 0.3)
    pauses = iter([0.2, 0.2, 0.2, 20])

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(next(pauses))
        writer.write(b":1\r\n")

    async with answering(answer) as redis:
        lines = Lines(redis)
        for _ in range(3):
            assert await lines.evalsha("0" * 40, 0) == 1
        began = asyncio.get_running_loop().time()
        with pytest.raises(TimeoutError):
            await lines.evalsha("0" * 40, 0)
        assert 0.25 < asyncio.get_running_loop().time() - began < 5
        assert not lines._idle, "its reply is still under way"


async def test_a_server_that_closes_is_told_at_once() -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"$100\r\nhalf")
        writer.close()

    async with answering(answer) as redis:
        with pytest.raises(ConnectionError):
            await asyncio.wait_for(call(redis), 2)


async def test_what_is_no_reply_ends_the_connection() -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with answering(answer) as redis:
        lines = Lines(redis)
        with pytest.raises(InvalidResponse):
            await lines.evalsha("0" * 40, 0)
        assert not lines._idle


async def test_an_error_is_raised_and_the_next_reply_is_the_next_call_s() -> None:
    replies = iter([b"-ERR no\r\n", b":2\r\n", b"*2\r\n-LOADING soon\r\n:1\r\n"])

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(next(replies))

    async with answering(answer) as redis:
        lines = Lines(redis)
        with pytest.raises(ResponseError, match="no"):
            await lines.evalsha("0" * 40, 0)
        assert await lines.evalsha("0" * 40, 0) == 2
        with pytest.raises(ConnectionError, match="soon"):
            await lines.evalsha("0" * 40, 0)


async def test_a_server_that_is_full_says_so() -> None:
    """It does so before anything is asked, perhaps before redis-py has given the connection to us."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"-ERR max number of clients reached\r\n")
        await reader.read()  # a reset could overtake what it said
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        redis = open_redis(f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        with pytest.raises(ConnectionError, match="max number of clients"):
            await call(redis)
        await redis.aclose()


async def test_bytes_that_the_stream_had_before_are_read() -> None:
    async with answering(_silent) as redis:
        line = redis.connection_pool.make_connection()
        await line._connect()
        line._reader.feed_data(b":5\r\n:6\r\n")
        line._reader.feed_eof()
        line._parser.on_connect(line)

        assert [await line.read_response() for _ in range(2)] == [5, 6]
        with pytest.raises(ConnectionError):
            await line.read_response()


async def test_the_loss_of_a_former_socket_does_not_touch_the_next() -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b":1\r\n")

    async with answering(answer) as redis:
        line = redis.connection_pool.make_connection()
        assert isinstance(line, Direct)
        await line.connect()
        former = line._parser.wire
        await line.disconnect(nowait=True)
        await line.connect()
        assert former is not None
        former.connection_lost(OSError("late"))
        await line.send_command("ECHO", "x")
        assert await line.read_response() == 1
        await line.disconnect()


async def test_a_command_larger_than_a_socket_takes_at_once(server: Server) -> None:
    redis = open_redis(server.url)
    text = b"x" * 4_000_000
    assert await redis.echo(text) == text
    sha = await redis.script_load("return #ARGV[1]")
    assert await Lines(redis).evalsha(sha, 0, text) == len(text)
    await redis.aclose()


async def test_mail_is_delivered_in_the_moment_it_comes_in(server: Server) -> None:
    redis, keys = open_redis(server.url), Keys("busload:test")
    mail: asyncio.Queue[Mail] = asyncio.Queue()
    async with aclosing(Inbox(redis, keys, "token").events(mail.put_nowait)) as events:
        assert await asyncio.wait_for(anext(events), 20) == LookAgain(None)
        await redis.publish(keys.reply("token"), MAIL)
        assert [result.id for result in (await asyncio.wait_for(mail.get(), 20)).results] == ["a"]
        await redis.publish(keys.reply("token"), b"of a later version")
        assert await asyncio.wait_for(anext(events), 20) == LookAgain(None)
    await redis.aclose()


async def test_who_fails_at_his_mail_hears_of_it(server: Server) -> None:
    def fail(_: Mail) -> None:
        raise KeyError("a bug")

    redis, keys = open_redis(server.url), Keys("busload:test")
    async with aclosing(Inbox(redis, keys, "token").events(fail)) as events:
        assert await asyncio.wait_for(anext(events), 20) == LookAgain(None)
        await redis.publish(keys.reply("token"), MAIL)
        with pytest.raises(KeyError, match="a bug"):
            await asyncio.wait_for(anext(events), 20)
    await redis.aclose()


async def _silent(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
    await asyncio.sleep(0)
