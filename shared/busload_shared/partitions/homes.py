"""A queue that is spread over several lists: which request is in which, and what they are called. Pure.

Partition 0 is the queue's own list, so a queue of one partition is an ordinary queue. The others are ordinary queues
too, called `<queue>/1`, `<queue>/2`, …: each has keys of its own, in a cluster slot of its own.
"""

from __future__ import annotations

from zlib import crc32

from ..errors import SettingsInvalid

MOST = 64
"""Partitions of one queue at most: each costs every worker a look now and then, and a connection."""


def partition_of(request_id: str, count: int) -> int:
    """The number of the partition that a request belongs to: CRC-32 of its id's UTF-8 bytes, modulo their count."""
    return crc32(request_id.encode()) % count if count > 1 else 0


def partition_names(queue: str, count: int) -> tuple[str, ...]:
    """The lists' names, by number. Raises SettingsInvalid."""
    if not 1 <= count <= MOST:
        raise SettingsInvalid(f"partitions={count}: give 1 to {MOST}")
    return (queue, *(f"{queue}/{number}" for number in range(1, count)))


def batch_in(batch: str, partition: int) -> str:
    """The name of a batch in this partition: whoever holds it knows where its rows are, after a restart too."""
    return f"{batch}/{partition}"


def partition_of_batch(batch: str, count: int) -> int:
    """Where this batch's rows are. One that tells no partition is of the queue's own list: a worker of an ordinary
    queue claimed it."""
    _, told, number = batch.rpartition("/")
    return int(number) if told and number.isascii() and number.isdigit() and int(number) < count else 0
