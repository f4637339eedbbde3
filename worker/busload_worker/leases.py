"""Keeps the leases of this worker's batches, whatever the engine does."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from busload_shared.errors import BusloadUnavailable
from busload_shared.queue import Queue

from .logs import fields

logger = logging.getLogger("busload.leases")


class LeaseKeeper:
    """Renews every held lease at a quarter of its length, so that three renewals may fail.

    A batch older than `max_batch_s` is not renewed: a hung engine must not keep it. `overrun` and `lost` are
    called with the batch, once each, when that happens and when Redis says that the lease is gone. A batch without a
    lease is watched all the same until it is dropped: its engine may never come to an end.
    """

    def __init__(
        self,
        queue: Queue,
        *,
        lease_s: float,
        max_batch_s: float,
        overrun: Callable[[str], None],
        lost: Callable[[str], None],
    ) -> None:
        self._queue = queue
        self._lease_s = lease_s
        self._max_batch_s = max_batch_s
        self._overrun = overrun
        self._lost = lost
        self._held: dict[str, float] = {}
        self._gone: set[str] = set()

    def hold(self, batch: str) -> None:
        """Keep this batch's lease from now on."""
        self._held[batch] = time.monotonic()
        self._gone.discard(batch)

    def drop(self, batch: str) -> None:
        """The batch is answered or given up."""
        self._held.pop(batch, None)
        self._gone.discard(batch)

    async def run(self) -> None:
        """Renew until cancelled. A Redis that is away is asked again at the next turn."""
        while True:
            await asyncio.sleep(self._lease_s / 4)
            try:
                await self.renew()
            except BusloadUnavailable as error:
                logger.warning("leases not renewed: %s", error, extra=fields(held=len(self._held)))

    async def renew(self) -> None:
        """Renew once."""
        self._give_up_overruns()
        batches = [batch for batch in self._held if batch not in self._gone]
        if not batches:
            return
        kept = await self._queue.renew(batches, lease_ms=self._lease_s * 1000)
        for batch, renewed in zip(batches, kept, strict=True):
            if not renewed and batch in self._held:
                self._gone.add(batch)
                self._lost(batch)

    def _give_up_overruns(self) -> None:
        longest = time.monotonic() - self._max_batch_s
        for batch in [batch for batch, since in self._held.items() if since < longest]:
            self.drop(batch)
            self._overrun(batch)
