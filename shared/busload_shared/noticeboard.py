"""What workers tell each other and everybody through Redis: who is there, and what was learned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from .errors import BusloadUnavailable
from .past_batch import PastBatch, PastBatches
from .refusals import lacks_rights
from .replies import QueueInfo, Running, RunningBatch, WorkerInfo, three_numbers
from .scripted import Scripted


class Noticeboard(Scripted):
    """The part of a Queue that concerns workers and not requests."""

    async def heartbeat(self, info: WorkerInfo, *, ttl_s: float) -> int:
        """Say that this worker lives. Returns how many workers do."""
        return await self._heartbeat(info.name, info.model_dump_json(), ttl_s)

    async def farewell(self, worker: str) -> None:
        """Take this worker off the list."""
        await self._heartbeat(worker, "", 60.0)

    async def _heartbeat(self, worker: str, record: str, ttl_s: float) -> int:
        keys = [self.keys.workers, self.keys.worker(worker)]
        return int(await self._run("heartbeat", keys, [self._now(), worker, record, int(ttl_s * 1000)]))

    async def info(self) -> QueueInfo:
        """The state of the queue and of its workers."""
        k = self.keys
        keys = [k.queue, k.retry, k.inflight, k.leases, k.batches, k.dead, k.workers, k.stats, k.ranked]
        reply = await self._run("queue_info", keys, [self._now()])
        return QueueInfo.read(k.queue, reply, workers=await self._workers(reply[9]))

    async def running(self, *, at_most: int = 256) -> Running:
        """The batches that are out now; none for a user who may not look at them."""
        now, *told = await self._run("running", [self.keys.inflight, self.keys.batches], [self._now(), at_most])
        read = (RunningBatch.read(*told[at : at + 4]) for at in range(0, len(told), 4))
        return Running(float(now), tuple(batch for batch in read if batch))

    async def tell_past(self, worker: str, past: Sequence[PastBatch], *, ttl_s: float) -> None:
        """Tell of this worker's last batches."""
        key, told = self.keys.past(worker), PastBatches(batches=tuple(past)).model_dump_json()
        await self._persist(lambda: self.redis.set(key, told, px=int(ttl_s * 1000)))

    async def past(self, workers: Sequence[str]) -> dict[str, tuple[PastBatch, ...]]:
        """What these workers tell of their last batches; nothing for a user who may not look at it."""
        keys = [self.keys.past(worker) for worker in workers]
        try:
            told = await self._persist(lambda: self.redis.mget(keys)) if keys else []
        except BusloadUnavailable as error:
            if lacks_rights(error):
                return {}
            raise
        pairs = zip(workers, told, strict=True)
        return {worker: past for worker, raw in pairs if raw is not None and (past := _past(raw))}

    async def _workers(self, names: Iterable[bytes]) -> tuple[WorkerInfo, ...]:
        keys = [self.keys.worker(name.decode("utf-8", "replace")) for name in names]
        records = await self._persist(lambda: self.redis.mget(keys)) if keys else []
        return tuple(info for record in records if record and (info := _readable(record)))

    async def learn(
        self, seen: Mapping[str, tuple[float, float, float]], *, kept_share: float, most_keys: int, ttl_s: float
    ) -> int:
        """Add sums over ln(length) of answers under each key: (how many, sum, sum of squares). Returns the keys known.

        Not repeatable to the letter: a lost reply may count a batch's lengths twice, which harms nothing.
        """
        args: list[Any] = [kept_share, most_keys, int(ttl_s * 1000)]
        for key, sums in seen.items():
            args += (key, *sums)
        return int(await self._run("learn", [self.keys.lengths], args))

    async def lengths(self) -> dict[str, tuple[float, float, float]]:
        """What all workers have learned so."""
        known = await self._persist(lambda: self.redis.hgetall(self.keys.lengths))
        return {key.decode("utf-8", "replace"): sums for key, raw in known.items() if (sums := three_numbers(raw))}


def _past(told: bytes) -> tuple[PastBatch, ...]:
    """None of what no worker wrote."""
    try:
        return PastBatches.model_validate_json(told).batches
    except ValidationError:
        return ()


def _readable(record: bytes) -> WorkerInfo | None:
    """A worker's record, None for one that no worker wrote: it must not hide the others."""
    try:
        return WorkerInfo.model_validate_json(record)
    except ValidationError:
        return None
