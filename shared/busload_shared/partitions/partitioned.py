"""A queue of several partitions, as if it were one. Each is a Queue of its own, perhaps on a server of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from redis.asyncio import Redis

from ..errors import BusloadUnavailable
from ..queue import KNOWN_MS, Queue
from ..replies import NO_CHOICE, Choice, Claim, Delivery, NotYet, WorkerInfo
from .absent import within
from .homes import partition_of_batch
from .rounds import NOBODY_ANSWERS, Chooses, Rounds, no_choice
from .spread import SpreadQueue, result_or_raise

TOLD_EVERY_S = 4.0
"""A worker's record is written to one partition after the other, to each within this: it lives for 15 s."""


class PartitionedQueue(SpreadQueue):
    """Satisfies what Queue promises to a worker. A batch has rows of one partition, and its name says which.

    What concerns one batch raises BusloadUnavailable when its partition's server is away; `claim` and
    `wait_for_arrival` leave such partitions out. `choose` picks the rows of a batch, for the partition whose turn it
    is; `claim` takes no `choice` therefore.
    """

    def __init__(self, parts: Sequence[Queue], *, patience_s: float) -> None:
        super().__init__(parts, patience_s=patience_s)
        self.choose: Chooses = no_choice
        self._rounds: Rounds | None = None
        self._told_at = [0.0] * len(parts)

    def _going(self) -> Rounds:
        """Only workers go rounds."""
        if self._rounds is None:
            self._rounds = Rounds(self._parts)
            self._rounds.hold_clock(self.now_ms)
        return self._rounds

    def hold_clock(self, now_ms: float | None) -> None:
        """For tests, Unix ms: of all partitions."""
        self.now_ms = now_ms
        self._going().hold_clock(now_ms)

    def _of(self, batch: str) -> Queue:
        return self._parts[partition_of_batch(batch, len(self._parts))]

    async def claim(  # noqa: PLR0913 - as Queue.claim
        self,
        batch: str,
        *,
        worker: str,
        max_batch_size: int,
        max_wait_ms: float,
        lease_ms: float,
        drain: bool = False,
        keep_ms: int = KNOWN_MS,
        choice: Choice = NO_CHOICE,  # noqa: ARG002 - made for one partition: see `choose`
    ) -> Claim | NotYet:
        """Claim a batch of one partition: of the first, in turn, from which one leaves. The claim's name is `batch`
        and the partition's number. A reply that was lost is found again when its partition's turn comes."""
        return await self._going().claim(
            batch,
            choose=self.choose,
            worker=worker,
            max_batch_size=max_batch_size,
            max_wait_ms=max_wait_ms,
            lease_ms=lease_ms,
            drain=drain,
            keep_ms=keep_ms,
        )

    async def renew(self, batches: Sequence[str], *, lease_ms: float) -> list[bool]:
        """A lease in a partition that does not answer counts as kept: neither can anybody else take it."""
        asking = (within(self._of(batch).renew([batch], lease_ms=lease_ms)) for batch in batches)
        told = await asyncio.gather(*asking, return_exceptions=True)
        away = [one for one in told if isinstance(one, BusloadUnavailable)]
        if away and len(away) == len(batches):
            raise away[0]
        return [isinstance(one, BusloadUnavailable) or result_or_raise(one)[0] for one in told]

    async def deliver(self, batch: str, rows: Sequence[Delivery], *, ttl_s: float) -> list[bool]:
        """In the batch's partition."""
        return await self._of(batch).deliver(batch, rows, ttl_s=ttl_s)

    async def release(self, batch: str, *, evidence: bool = True) -> int:
        """In the batch's partition."""
        return await self._of(batch).release(batch, evidence=evidence)

    async def hand_back(self, batch: str) -> int:
        """Of a batch's name that tells no partition: whatever was claimed under it and is not known of."""
        if "/" in batch:
            return await self._of(batch).hand_back(batch)
        return await self._going().hand_back()

    async def cancels(self, request_ids: Sequence[str], *, batch: str = "") -> set[str]:
        """In the batch's partition: a producer with another number of partitions may have sent it there."""
        return await self._of(batch).cancels(request_ids)

    async def wait_for_arrival(self, blocking: Redis, *, timeout_s: float) -> bool:  # noqa: ARG002 - has its own
        """Block until somebody waits in one of the partitions whose turn it is."""
        return await self._going().wait_for_arrival(timeout_s=timeout_s)

    async def heartbeat(self, info: WorkerInfo, *, ttl_s: float) -> int:
        """Tell the partitions, one after the other. Returns how many workers are on the queue; raises
        BusloadUnavailable if none of those it told answers."""
        rounds, now = self._going(), time.monotonic()
        away = BusloadUnavailable(NOBODY_ANSWERS)
        while here := [number for number in range(len(self._parts)) if number not in rounds.absent]:
            late = [number for number in here if now - self._told_at[number] >= TOLD_EVERY_S]
            telling = late or [min(here, key=self._told_at.__getitem__)]
            counts: list[int] = []
            calls = (within(self._parts[number].heartbeat(info, ttl_s=ttl_s)) for number in telling)
            for number, told in zip(telling, await asyncio.gather(*calls, return_exceptions=True), strict=True):
                if isinstance(told, BusloadUnavailable):
                    rounds.absent.add(number)
                    away = told
                else:
                    counts.append(result_or_raise(told))
                    self._told_at[number] = now
            if counts:
                rounds.workers = max(counts)
                return rounds.workers
        raise away

    async def farewell(self, worker: str) -> None:
        """To all partitions."""
        await self._all(lambda part: part.farewell(worker))

    async def close(self) -> None:
        """Stop going rounds, and let go of all servers."""
        if self._rounds is not None:
            await self._rounds.close()
        await super().close()
