"""Servers that say what a test has them say, in the place of a Redis, a sentinel or a cluster node."""

from __future__ import annotations

import asyncio


class Actor:
    """Answers each command with what `replies` has for it, and +OK else; counts connections."""

    def __init__(self) -> None:
        self.replies: dict[bytes, bytes] = {}
        self.connections = 0
        self.open = 0
        self.port = 0
        self.words: list[list[bytes]] = []

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        try:
            while head := await reader.readline():
                words = []
                for _ in range(int(head[1:])):
                    size = int((await reader.readline())[1:])
                    words.append((await reader.readexactly(size + 2))[:-2])
                self.words.append(words)
                writer.write(self.replies.get(words[0], b"+OK\r\n"))
        finally:
            self.open -= 1
            writer.close()


def slots_reply(*owned: tuple[int, int, Actor], host: str = "127.0.0.1") -> bytes:
    """What CLUSTER SLOTS answers."""
    rows = [
        f"*3\r\n:{first}\r\n:{last}\r\n*3\r\n${len(host)}\r\n{host}\r\n:{actor.port}\r\n$2\r\nid\r\n"
        for first, last, actor in owned
    ]
    return f"*{len(rows)}\r\n{''.join(rows)}".encode()


def master_reply(port: int) -> bytes:
    """What a sentinel answers."""
    return b"*2\r\n$9\r\n127.0.0.1\r\n$%d\r\n%d\r\n" % (len(str(port)), port)
