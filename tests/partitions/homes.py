"""Ids by the partition that they belong to."""

from __future__ import annotations

from itertools import count, islice

from busload_shared.partitions.homes import partition_of


def ids_in(partition: int, partitions: int, how_many: int, *, prefix: str = "r") -> list[str]:
    """So many ids of this partition."""
    names = (f"{prefix}{number}" for number in count())
    return list(islice((name for name in names if partition_of(name, partitions) == partition), how_many))


def one_in_each(partitions: int, *, prefix: str = "r") -> list[str]:
    """An id of each partition, by its number."""
    return [ids_in(number, partitions, 1, prefix=prefix)[0] for number in range(partitions)]
