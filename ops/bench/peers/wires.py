"""How a client speaks to each kind of server: `call(prompt)` gives the text or raises. Standard library at the top.

It runs in each peer's own virtual environment, so a peer's library is imported where it is needed.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Split = Callable[[bytes], "tuple[bool, bytes, bytes] | None"]
"""A buffer to (succeeded, body, rest), or None while the answer is not whole."""
PATHS = {"mosec": "/inference", "litserve": "/predict", "bentoml": "/generate"}


def http_content(style: str, prompt: str) -> Any:
    """What a peer's route takes: the bare text for Mosec, something to be told in JSON for the others."""
    return {"litserve": {"prompt": prompt}, "bentoml": {"prompts": [prompt]}}.get(style, prompt)


class CallFailed(Exception):
    """The server said no; the text is what it said."""


def split_http(held: bytes) -> tuple[bool, bytes, bytes] | None:
    """One HTTP/1.1 answer with a Content-Length."""
    head, found, rest = held.partition(b"\r\n\r\n")
    if not found:
        return None
    at = head.lower().find(b"content-length:")
    length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
    if len(rest) < length:
        return None
    ok = head[9:12] == b"200"
    return ok, rest[:length] if ok else head[9:12] + b" " + rest[:length], rest[length:]


def split_line(held: bytes) -> tuple[bool, bytes, bytes] | None:
    """`+text` or `-error`, to the end of the line."""
    line, found, rest = held.partition(b"\n")
    return (line[:1] == b"+", line[1:], rest) if found else None


class Connection(asyncio.Protocol):
    """One kept connection with one request under way on it; `then(ok, body)` is called with each answer."""

    def __init__(self, split: Split) -> None:
        self._split = split
        self._held = b""
        self.then: Callable[[bool, bytes], None] | None = None
        self.lost = False

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def send(self, message: bytes) -> None:
        self._transport.write(message)

    def data_received(self, data: bytes) -> None:
        answer = self._split(self._held + data)
        if answer is None:
            self._held += data
            return
        ok, body, self._held = answer
        if self.then is not None:
            self.then(ok, body)

    def connection_lost(self, _: Exception | None) -> None:
        self.lost = True
        if self.then is not None:
            self.then(False, b"connection closed by the server")

    def close(self) -> None:
        self.then = None
        self._transport.close()


class SocketWire:
    """HTTP or lines over kept connections; `style` is mosec, litserve, bentoml or line."""

    def __init__(self, style: str, address: str) -> None:
        self._style = style
        self._host, _, port = address.partition(":")
        self._port = int(port)
        self._idle: list[Connection] = []

    async def open(self) -> None:
        """Connections are opened as they are needed."""

    async def connect(self) -> Connection:
        split = split_line if self._style == "line" else split_http
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(lambda: Connection(split), self._host, self._port)
        return connection

    def message(self, prompt: str) -> bytes:
        """The bytes of one request."""
        if self._style == "line":
            return prompt.encode() + b"\n"
        content = http_content(self._style, prompt)
        text = isinstance(content, str)
        kind, body = ("text/plain", content) if text else ("application/json", json.dumps(content))
        head = f"POST {PATHS[self._style]} HTTP/1.1\r\nHost: {self._host}\r\n"
        return f"{head}Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()

    async def call(self, prompt: str) -> None:
        connection = self._kept() or await self.connect()
        answered: asyncio.Future[tuple[bool, bytes]] = asyncio.get_running_loop().create_future()
        connection.then = lambda ok, body: None if answered.done() else answered.set_result((ok, body))
        connection.send(self.message(prompt))
        ok, body = await answered
        connection.then = None
        if not connection.lost:
            self._idle.append(connection)
        if not ok:
            raise CallFailed(body.decode(errors="replace")[:200])

    def _kept(self) -> Connection | None:
        """A connection that is idle and that the server did not close meanwhile."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.lost:
                return connection
        return None

    async def close(self) -> None:
        for connection in self._idle:
            connection.close()


class AiohttpWire:
    """HTTP as a Python backend speaks it: aiohttp, one session with kept connections, as many as are needed."""

    def __init__(self, style: str, address: str) -> None:
        self._style = style
        self._url = f"http://{address}{PATHS[style]}"

    async def open(self) -> None:
        from aiohttp import ClientSession, TCPConnector

        self._session = ClientSession(connector=TCPConnector(limit=0))

    async def call(self, prompt: str) -> None:
        content = http_content(self._style, prompt)
        text = isinstance(content, str)
        sent = {"data": content} if text else {"json": content}
        async with self._session.post(self._url, **sent) as response:
            if response.status != 200:
                raise CallFailed(f"{response.status} {await response.text()}"[:200])
            await (response.text() if text else response.json())

    async def close(self) -> None:
        await self._session.close()


class RayWire:
    """A Ray Serve handle in a driver process of its own."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def open(self) -> None:
        import ray
        from ray import serve

        ray.init(address=self._address, log_to_driver=False, logging_level="ERROR")
        self._handle = serve.get_app_handle("peers")

    async def call(self, prompt: str) -> None:
        await self._handle.remote(prompt)

    async def close(self) -> None:
        import ray

        await asyncio.to_thread(ray.shutdown)


class CeleryWire:
    """Celery's own results, its one subscription read by the event loop instead of by a wait for each."""

    def __init__(self, folder: str) -> None:
        sys.path.insert(0, folder)

    async def open(self) -> None:
        from celery_batches_app import app, generate

        self._generate = generate
        self._consumer = app.backend.result_consumer
        self._consumer.start("none yet")
        self._subscription = self._consumer._pubsub
        self._waiting: dict[str, asyncio.Future[None]] = {}
        asyncio.get_running_loop().add_reader(self._subscription.connection._sock.fileno(), self._read)

    def _read(self) -> None:
        while (heard := self._subscription.parse_response(block=False, timeout=0)) is not None:
            told = self._subscription.handle_message(heard)
            if told is not None and told["type"] == "message":
                meta = self._consumer._decode_result(told["data"])
                waiting = self._waiting.pop(meta["task_id"], None)
                if waiting is not None and not waiting.done():
                    failed = None if meta["status"] == "SUCCESS" else CallFailed(str(meta["result"])[:200])
                    waiting.set_exception(failed) if failed else waiting.set_result(None)

    async def call(self, prompt: str) -> None:
        from celery import uuid

        name = uuid()
        self._waiting[name] = asyncio.get_running_loop().create_future()
        answered = self._waiting[name]
        asked = self._generate.apply_async((prompt,), task_id=name)
        await answered
        del asked  # until here, as an AsyncResult that is let go ends its subscription

    async def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._subscription.connection._sock.fileno())


class BusloadWire:
    """Busload's AsyncClient; `shares` sums 1/size of each answer's batch, so requests / shares is the mean batch."""

    def __init__(self, address: str) -> None:
        self._url = address
        self.shares = 0.0

    async def open(self) -> None:
        from busload import AsyncClient

        self._client = AsyncClient(self._url)

    async def call(self, prompt: str) -> None:
        fault = {"metadata": {"fake": "error"}} if prompt.startswith("BAD") else {}
        result = await self._client.generate(prompt=prompt, max_tokens=16, **fault)
        if result.batch is not None:
            self.shares += 1 / result.batch.size
        if result.status != "succeeded":
            raise CallFailed(f"{result.status}: {result.error.message if result.error else ''}")

    async def close(self) -> None:
        await self._client.close()


class InProcessWire:
    """batched as it is meant to be used: a decorated function in the caller's own process."""

    def __init__(self, folder: str) -> None:
        sys.path.insert(0, folder)

    async def open(self) -> None:
        from batched.aio import dynamically
        from handler import Handler, batch_size, window_ms

        self._generate = dynamically(Handler(), batch_size=batch_size(), timeout_ms=window_ms())

    async def call(self, prompt: str) -> None:
        await self._generate(prompt)

    async def close(self) -> None:
        """It has nothing to close."""


def wire(style: str, address: str) -> Any:
    """The wire for a style; `address` is host:port, Ray's or Redis' address."""
    servers = str(Path(__file__).parent / "servers")
    if style in ("ray", "busload"):
        return RayWire(address) if style == "ray" else BusloadWire(address)
    if style == "busload-raw":
        from raw_busload import RawBusloadWire

        return RawBusloadWire(address)
    if style.endswith("-aiohttp"):
        return AiohttpWire(style.removesuffix("-aiohttp"), address)
    if style in ("celery", "in-process"):
        return CeleryWire(servers) if style == "celery" else InProcessWire(servers)
    return SocketWire(style, address)
