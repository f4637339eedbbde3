"""Where everything of a queue is at one moment, read past the scripts, and what must hold of it at any moment."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

import redis

from busload_shared.element import Element
from busload_shared.keys import Keys

BELL = b"@0.000 0 0   "
"""What stands in the list while only ranked requests wait, so that idle workers wake up; see lua/lib/ranking.lua."""

_GROUP = re.compile(rb"=(\d+) ")


@dataclass(frozen=True)
class Places:
    """The content of the queue's keys. Elements that were never stamped have an empty header."""

    waiting: list[Element]
    groups: list[int]
    retry: list[Element]
    flights: dict[str, Element]
    batches: dict[str, str]
    leases: dict[str, float]
    dead: list[bytes]
    results: dict[str, bytes]

    @classmethod
    def read(cls, client: redis.Redis, keys: Keys, names: list[str], now_ms: float) -> Places:
        """Read all in one step. `names` are the ids that may have a result."""
        pipeline = client.pipeline()
        pipeline.lrange(keys.queue, 0, -1)
        pipeline.zrange(keys.ranked, 0, -1)
        pipeline.lrange(keys.retry, 0, -1)
        pipeline.hgetall(keys.inflight)
        pipeline.hgetall(keys.batches)
        pipeline.zrange(keys.leases, 0, -1, withscores=True)
        pipeline.lrange(keys.dead, 0, -1)
        pipeline.mget([keys.result(name) for name in names])
        waiting, ranked, retry, flights, batches, leases, dead, results = pipeline.execute()

        def element(raw: bytes) -> Element:
            return Element.parse(raw, latest_ms=now_ms)

        marks = [_GROUP.match(raw) for raw in retry]
        return cls(
            waiting=[element(raw) for raw in [*reversed(waiting), *ranked] if raw != BELL],
            groups=[int(mark.group(1)) if mark else 0 for mark in reversed(marks)],
            retry=[element(_GROUP.sub(b"", raw, count=1)) for raw in reversed(retry)],
            flights={field.decode(): element(raw) for field, raw in flights.items()},
            batches={name.decode(): meta.decode() for name, meta in batches.items()},
            leases={name.decode(): until for name, until in leases},
            dead=dead,
            results={name: found for name, found in zip(names, results, strict=True) if found},
        )

    @property
    def elements(self) -> list[Element]:
        """All elements in lists and in flight."""
        return [*self.waiting, *self.retry, *self.flights.values()]

    def copies(self) -> Counter[bytes]:
        """How many elements there are of each payload, in lists and in flight."""
        return Counter(element.payload for element in self.elements)

    def running(self) -> Counter[bytes]:
        """How many elements of each payload are in flight."""
        return Counter(element.payload for element in self.flights.values())

    def rows(self, batch: str) -> list[Element]:
        """What of a batch is in flight, in order."""
        fields = [field for field in self.flights if field.rpartition(":")[0] == batch]
        return [self.flights[field] for field in sorted(fields, key=lambda field: int(field.rpartition(":")[2]))]

    def size(self, batch: str) -> int:
        """The size a batch had when it left."""
        return int(self.batches[batch].split(" ")[0])

    def check(self) -> None:
        """Batches, leases, flights and groups agree with one another."""
        metas = {name for name in self.batches if not name.endswith("#left")}
        lefts = {name.removesuffix("#left"): int(n) for name, n in self.batches.items() if name.endswith("#left")}
        flying = Counter(field.rpartition(":")[0] for field in self.flights)
        assert metas == set(self.leases), "every batch has a lease, and every lease a batch"
        assert lefts == dict(flying), "the rows left of each batch are those in flight"
        assert metas == set(flying), "every row in flight has its batch, and no batch is empty"
        for field in self.flights:
            batch, _, index = field.rpartition(":")
            assert int(index) < self.size(batch), "every row has a seat"
        self._check_groups()

    def _check_groups(self) -> None:
        at = 0
        while at < len(self.groups):
            size = self.groups[at]
            assert size > 0, "every suspect is in a group"
            assert self.groups[at : at + size] == [size] * size, "a group of suspects stands together"
            at += size
