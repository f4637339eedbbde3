"""Mosec: its HTTP server in Rust, one worker process; bytes in and out, so that no JSON is in its way."""

from __future__ import annotations

from handler import Handler, batch_size, window_ms
from mosec import Server, Worker


class Peer(Worker):
    def __init__(self) -> None:
        super().__init__()
        self._handle = Handler()

    def deserialize(self, data: bytes) -> str:
        return data.decode()

    def serialize(self, data: str) -> bytes:
        return data.encode()

    def forward(self, data: list[str] | str) -> list[str] | str:
        """A list, or a single prompt when the batch size is 1."""
        return self._handle(data) if isinstance(data, list) else self._handle([data])[0]


if __name__ == "__main__":
    server = Server()
    server.append_worker(Peer, num=1, max_batch_size=batch_size(), max_wait_time=window_ms())
    server.run()
