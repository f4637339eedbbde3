"""batched: its asyncio decorator behind the smallest socket server, a line for a line, so that it has a border."""

from __future__ import annotations

import asyncio
import sys

import uvloop
from batched.aio import dynamically
from handler import Handler, batch_size, window_ms


class Lines(asyncio.Protocol):
    """One request under way on each connection: `prompt\\n` in, `+text\\n` or `-error\\n` out."""

    def __init__(self, generate) -> None:
        self._generate = generate
        self._tasks: set[asyncio.Task[None]] = set()
        self._held = b""

    def connection_made(self, transport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        *lines, self._held = (self._held + data).split(b"\n")
        for line in lines:
            task = asyncio.get_running_loop().create_task(self._answer(line))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, line: bytes) -> None:
        try:
            self._transport.write(b"+%s\n" % (await self._generate(line.decode())).encode())
        except Exception as error:
            self._transport.write(b"-%s\n" % repr(error).encode())


async def main(port: int) -> None:
    generate = dynamically(Handler(), batch_size=batch_size(), timeout_ms=window_ms())
    server = await asyncio.get_running_loop().create_server(lambda: Lines(generate), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
