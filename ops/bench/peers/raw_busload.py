"""Busload by its wire and nothing else: what a lean client in any language costs. No models, no futures, no retries.

One connection sends, the requests of one turn of the event loop in one call of the queue's submit script; another
hears the results. Like the lean HTTP client beside it, it looks at a result's id and status only.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Callable
from hashlib import sha1
from itertools import chain, count
from typing import Any
from urllib.parse import urlsplit

import hiredis

from busload_shared.keys import Keys
from busload_shared.scripts import source

QUEUE = "busload:default"
MOST_WAITING = 100_000
RESULT = re.compile(rb'"id":"([^"]+)","status":"(\w+)"')

Then = Callable[[bool, bytes], None]


class Line(asyncio.Protocol):
    """One connection to Redis; `heard` is called with each reply."""

    def __init__(self, heard: Callable[[Any], None]) -> None:
        self._heard = heard
        self._reader = hiredis.Reader()
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        while (reply := self._reader.gets()) is not False:
            self._heard(reply)

    def send(self, *words: bytes | str | int) -> None:
        self._transport.write(hiredis.pack_command(words))

    def close(self) -> None:
        self._transport.close()


class RawConnection:
    """One caller with one request under way; `then(ok, body)` is called with each answer."""

    lost = False

    def __init__(self, wire: RawBusloadWire) -> None:
        self._wire = wire
        self.then: Then | None = None

    def send(self, message: bytes) -> None:
        self._wire.put(self, message)

    def close(self) -> None:
        self.then = None


class RawBusloadWire:
    """The wire; `message` is all of a request that comes after its id."""

    def __init__(self, address: str) -> None:
        self._address = urlsplit(address)
        self._keys = Keys(QUEUE)
        self._token = secrets.token_hex(16)
        self._numbers = count()
        self._waiting: dict[bytes, RawConnection] = {}
        self._put: list[tuple[bytes, bytes]] = []

    async def open(self) -> None:
        loop, text = asyncio.get_running_loop(), source("submit")
        host, port = self._address.hostname, self._address.port
        self._loaded: asyncio.Future[Any] = loop.create_future()
        self._listens: asyncio.Future[Any] = loop.create_future()
        _, self._sender = await loop.create_connection(lambda: Line(self._told), host, port)
        _, self._listener = await loop.create_connection(lambda: Line(self._letter), host, port)
        self._sender.send("SCRIPT", "LOAD", text)
        self._listener.send("SUBSCRIBE", self._keys.reply(self._token))
        await asyncio.gather(self._loaded, self._listens)
        self._sha = sha1(text.encode(), usedforsecurity=False).hexdigest()

    async def connect(self) -> RawConnection:
        return RawConnection(self)

    def message(self, prompt: str) -> bytes:
        return f'","prompt":"{prompt}","max_tokens":16}}'.encode()

    def put(self, caller: RawConnection, message: bytes) -> None:
        """Send with all that is put in this turn of the loop."""
        name = b"%s-%d" % (self._token.encode(), next(self._numbers))
        self._waiting[name] = caller
        if not self._put:
            asyncio.get_running_loop().call_soon(self._flush)
        self._put.append((name, b'{"id":"' + name + message))

    def _flush(self) -> None:
        k, put = self._keys, self._put
        self._put = []
        keys: list[Any] = [k.queue, k.retry, k.inflight, k.ranked, k.deadlines]
        args: list[Any] = ["", MOST_WAITING, self._token]
        states, results = k.state("").encode(), k.result("").encode()
        keys += [states + name for name, _ in put]
        keys += [results + name for name, _ in put]
        args += chain.from_iterable(put)
        self._sender.send("EVALSHA", self._sha, len(keys), *keys, *args)

    def _told(self, reply: Any) -> None:
        if not self._loaded.done():
            self._loaded.set_result(reply)
        elif isinstance(reply, Exception) or any(state != b"queued" for state in reply[2]):
            raise SystemExit(f"the queue did not take a request: {reply!r}")

    def _letter(self, reply: Any) -> None:
        if not self._listens.done():
            self._listens.set_result(reply)
            return
        for name, status in RESULT.findall(reply[2]):
            caller = self._waiting.pop(name, None)
            if caller is not None and caller.then is not None:
                caller.then(status == b"succeeded", status)

    async def call(self, prompt: str) -> None:
        answered: asyncio.Future[tuple[bool, bytes]] = asyncio.get_running_loop().create_future()
        caller = await self.connect()
        caller.then = lambda ok, body: None if answered.done() else answered.set_result((ok, body))
        caller.send(self.message(prompt))
        ok, body = await answered
        if not ok:
            raise RuntimeError(body.decode())

    async def close(self) -> None:
        self._sender.close()
        self._listener.close()
