"""A TCP proxy before Redis that can cut, delay and swallow, and lose one named command before or after it ran."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from dataclasses import dataclass, field
from typing import Literal

import hiredis

from busload_shared import scripts

When = Literal["before", "after"]


def script_names() -> dict[bytes, str]:
    """What EVALSHA names a script by, to the script."""
    return {hashlib.sha1(scripts.source(name).encode()).hexdigest().encode(): name for name in scripts.names()}


@dataclass(slots=True)
class Trap:
    """Set for one command: when it comes it is lost before Redis hears it, or its reply is lost after it ran.

    `command` is a script's name or a command's, such as `LPUSH`. The connection is closed then, or left
    open and mute with `silent`.
    """

    command: str
    when: When
    silent: bool
    sprung: asyncio.Event = field(default_factory=asyncio.Event)
    victim: Link | None = None


class Link:
    """One client's connection and its way on to Redis."""

    def __init__(self, proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._reader, self._writer = reader, writer
        self._up: asyncio.StreamWriter | None = None
        self._commands = hiredis.Reader()
        self.mute = False
        self.unheard_since: float | None = None
        """When a command came that nobody will ever answer. Until one comes nobody can know that we are mute."""

        self._reply_lost: Trap | None = None
        self.closed = asyncio.Event()

    async def serve(self) -> None:
        """Carry bytes both ways until either side ends."""
        try:
            answers, self._up = await asyncio.open_connection("127.0.0.1", self._proxy.redis_port)
            onward, back = asyncio.create_task(self._onward()), asyncio.create_task(self._back(answers))
            await asyncio.wait({onward, back}, return_when=asyncio.FIRST_COMPLETED)
            if self.mute:  # should Redis hang up on a connection that we hold open, its client shall not learn it
                await asyncio.wait({onward})
            for way in (onward, back):
                way.cancel()
            await asyncio.gather(onward, back, return_exceptions=True)
        except OSError:
            pass  # Redis is down: the client is hung up on, as it would be
        finally:
            self.cut()
            self.closed.set()

    async def _onward(self) -> None:
        with contextlib.suppress(OSError):
            while chunk := await self._reader.read(65536):
                await self._late()
                if self._passes(chunk) and self._up is not None:
                    self._up.write(chunk)
                    await self._up.drain()

    def _passes(self, chunk: bytes) -> bool:
        """Whether the bytes go on. Every command is looked at, for traps."""
        if self.mute and self.unheard_since is None:
            self.unheard_since = time.monotonic()
        self._commands.feed(chunk)
        while (command := self._commands.gets()) is not False:
            trap = self._proxy.trap_for(command)
            if trap is None or self.mute:
                continue
            trap.victim = self
            trap.sprung.set()
            if trap.when == "after":
                self._reply_lost = trap
            elif trap.silent:
                self._fall_silent()
            else:
                self.cut()
        return not self.mute

    async def _back(self, answers: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError):
            while chunk := await answers.read(65536):
                await self._late()
                if (trap := self._reply_lost) is not None:
                    self._reply_lost = None
                    if not trap.silent:
                        return
                    self._fall_silent()
                if not self.mute:
                    self._writer.write(chunk)
                    await self._writer.drain()

    def _fall_silent(self) -> None:
        """Upon a command, which is not answered any more."""
        self.mute, self.unheard_since = True, time.monotonic()

    async def _late(self) -> None:
        if self._proxy.delay_s:
            await asyncio.sleep(self._proxy.delay_s)

    def cut(self) -> None:
        """Close both sides now."""
        for writer in (self._writer, self._up):
            if writer is not None and writer.transport is not None:
                writer.transport.abort()


class Proxy:
    """Listens on a port of its own. `delay_s` holds every packet back; `refusing` hangs up on newcomers."""

    def __init__(self, redis_port: int) -> None:
        self.redis_port = redis_port
        self.delay_s = 0.0
        self.refusing = False
        self.links: set[Link] = set()
        self.traps: list[Trap] = []
        self._names = script_names()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._welcome, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    async def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refusing:
            writer.transport.abort()
            return
        link = Link(self, reader, writer)
        self.links.add(link)
        try:
            await link.serve()
        finally:
            self.links.discard(link)

    def trap_for(self, command: object) -> Trap | None:
        """The trap that this command springs, which is then used up."""
        if not self.traps or not isinstance(command, list) or not command:
            return None
        name = command[0].decode(errors="replace").upper()
        if name == "EVALSHA" and len(command) > 1:
            name = self._names.get(command[1], "?")
        trap = next((trap for trap in self.traps if trap.command == name), None)
        if trap is not None:
            self.traps.remove(trap)
        return trap

    def cut(self) -> None:
        """Drop every connection."""
        for link in list(self.links):
            link.cut()

    def cut_mute(self) -> None:
        """Drop the connections that were held open and mute."""
        for link in list(self.links):
            if link.mute:
                link.cut()

    def silence(self) -> list[Link]:
        """Swallow all that comes on the connections there are, and leave them open. Returns them."""
        links = list(self.links)
        for link in links:
            link.mute = True
        return links

    async def close(self) -> None:
        """Stop listening and drop all."""
        if self._server is not None:
            self._server.close()
        self.cut()
