"""The results of a queue of several partitions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from ..archive import Archive, Seen
from ..queue import Queue
from .homes import partition_of


def archive_of(queue: Queue, *, patience_s: float = 5.0) -> Archive:
    """Reads the results of this queue, over its connections."""
    parts = [Archive(part.redis, part.keys.queue, patience_s=patience_s) for part in queue.parts]
    return parts[0] if len(parts) == 1 else PartitionedArchive(parts, patience_s=patience_s)


class PartitionedArchive(Archive):
    """Looks for each id in the partition that it belongs to."""

    reads_states: bool

    def __init__(self, parts: Sequence[Archive], *, patience_s: float) -> None:
        super().__init__(parts[0].redis, parts[0].keys.queue, patience_s=patience_s)
        self._parts = parts

    async def look(self, request_ids: Sequence[str]) -> list[Seen]:
        """As `Archive.look`."""
        groups: dict[int, list[str]] = {}
        for request_id in request_ids:
            groups.setdefault(partition_of(request_id, len(self._parts)), []).append(request_id)
        seen = await asyncio.gather(*(self._parts[number].look(ids) for number, ids in groups.items()))
        self.reads_states = all(part.reads_states for part in self._parts)
        found = {
            request_id: one
            for ids, told in zip(groups.values(), seen, strict=True)
            for request_id, one in zip(ids, told, strict=True)
        }
        return [found[request_id] for request_id in request_ids]

    async def ids(self, pattern: str) -> AsyncIterator[list[str]]:
        """As `Archive.ids`: walks all keys once for each partition."""
        for part in self._parts:
            async for page in part.ids(pattern):
                yield page

    async def size(self) -> int | None:
        """Of all servers together."""
        servers = {id(part.redis): part for part in self._parts}.values()
        sizes = await asyncio.gather(*(part.size() for part in servers))
        return None if None in sizes else sum(size for size in sizes if size is not None)

    async def close(self) -> None:
        """Let go of all servers."""
        for redis in {part.redis for part in self._parts}:
            await redis.aclose()
