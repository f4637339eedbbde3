"""The inbox of a client of a partitioned queue: results of all partitions, over one connection."""

from __future__ import annotations

from itertools import cycle

from redis.asyncio.connection import ConnectionPool

from ..inbox import Event, Inbox
from ..queue import Queue
from .homes import partition_of


def inbox_of(queue: Queue, token: str) -> Inbox:
    """Where results for the client called `token` come in."""
    if len(queue.parts) == 1:
        return Inbox(queue.redis, queue.keys, token)
    return PartitionedInbox(queue, token)


class PartitionedInbox(Inbox):
    """In a cluster every node passes on what any of them publishes, so one node is enough to listen at. When it is
    lost, the next connection goes to another's."""

    def __init__(self, queue: Queue, token: str) -> None:
        super().__init__(queue.redis, queue.keys, token)
        self._keys = [part.keys for part in queue.parts]
        self._replies = {keys.reply(token).encode() for keys in self._keys}
        self._pools = cycle([part.redis.connection_pool for part in queue.parts])

    def _next_pool(self) -> ConnectionPool:
        return next(self._pools)

    def _own_channels(self) -> list[bytes]:
        return [*(self._replies - {self._reply}), self._reply]

    def _channel(self, request_id: str) -> bytes:
        return self._keys[partition_of(request_id, len(self._keys))].done(request_id).encode()

    def _id_of(self, channel: bytes) -> str:
        return channel.partition(b"}:done:")[2].decode("utf-8", "replace")

    def _is_own(self, channel: bytes) -> bool:
        return channel in self._replies

    def _read(self, reply: list[bytes]) -> list[Event]:
        if reply[1] in self._replies:
            if reply[0] == b"subscribe" and reply[1] != self._reply:
                return []
            reply = [reply[0], self._reply, *reply[2:]]
        return super()._read(reply)
