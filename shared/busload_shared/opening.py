"""Opens a queue by its URL and name: an ordinary one, one that waits for replicas, one of several partitions."""

from __future__ import annotations

from .connection import open_redis
from .partitions.homes import partition_names
from .partitions.partitioned import PartitionedQueue
from .queue import Queue
from .replicated import Copies, queue_with

ROOM, EACH = 100, 4
"""Connections that a pool of several partitions may open: what redis-py allows for one, and for each what waits and
looks at the same time."""


def open_queue(
    url: str,
    name: str,
    *,
    partitions: int = 1,
    copies: Copies | None = None,
    patience_s: float = 5.0,
    max_connections: int | None = None,
) -> Queue:
    """The queue, to be closed by `close`. Connects to nothing yet. Raises SettingsInvalid.

    In a cluster each partition has connections of its own, to the node of its slot; elsewhere all share one pool.
    """
    names, copies = partition_names(name, partitions), copies or Copies()
    if partitions > 1 and max_connections is None:
        max_connections = ROOM + EACH * partitions
    parts: list[Queue] = []
    for one in names:
        shared = parts[0].redis if parts and not _in_a_cluster(url) else None
        redis = shared or open_redis(url, queue=one, max_connections=max_connections)
        parts.append(queue_with(copies, redis, one, patience_s=patience_s))
    return parts[0] if partitions == 1 else PartitionedQueue(parts, patience_s=patience_s)


def _in_a_cluster(url: str) -> bool:
    return "+cluster:" in url.partition("//")[0]
