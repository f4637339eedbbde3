"""The worker's loop: take the next batch, run it, write the results; and what it takes to stop in good order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time

from redis.asyncio import Redis

from busload_shared.errors import BatchFailed, BusloadUnavailable, EngineDied, EngineError
from busload_shared.queue import Queue
from busload_shared.replies import Claim

from .admission import admit
from .answers import Ride
from .boarding import Boarding
from .ending import end
from .engine_keeper import EngineKeeper
from .engines.protocol import Engine
from .housekeeping import Housekeeper
from .leases import LeaseKeeper
from .logs import fields
from .outbox import Outbox
from .running import BatchRun
from .settings import Settings
from .vitals import Vitals

logger = logging.getLogger("busload.worker")

OTHERS_FIRST_S = 0.005
"""How long a busy worker leaves a waiting batch to idle ones before it claims ahead."""

LAST_WORDS_S = 5.0
"""How long the end of a drain may take to hand rows back and say goodbye."""


class Worker:
    """One worker: one engine, one queue, one batch at a time. `stop()` drains it, `abort()` ends it now."""

    def __init__(self, queue: Queue, blocking: Redis, engine: Engine, settings: Settings, *, quiet_s: float) -> None:
        self.vitals = Vitals()
        self._queue = queue
        self._settings = settings
        self._keeper = EngineKeeper(engine, self.vitals)
        self._boarding = Boarding(queue, blocking, settings, self.vitals)
        self._leases = LeaseKeeper(
            queue,
            lease_s=settings.lease_s,
            max_batch_s=settings.max_batch_s,
            overrun=self._overrun,
            lost=self._lease_lost,
        )
        self._housekeeper = Housekeeper(queue, settings, self.vitals, quiet_s=quiet_s, cancels=self._abort_cancelled)
        self._stop = asyncio.Event()
        self._out_of_time = False
        self._run: BatchRun | None = None
        self._ahead: Claim | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._work: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Work until stopped. Raises EngineStartFailed if the engine's first start fails."""
        helpers = [asyncio.create_task(self._housekeeper.run()), asyncio.create_task(self._leases.run())]
        self._work = asyncio.create_task(self._start_and_work())
        try:
            await asyncio.wait({self._work})
            if self._work.cancelled():
                logger.error("stopped with answers that Redis did not take: their rows run again elsewhere")
            else:
                self._work.result()
        finally:
            await self._leave(helpers)

    async def _start_and_work(self) -> None:
        try:
            await self._keeper.first_start()
        except EngineError:
            if self._stop.is_set():
                return  # we killed it ourselves, while it loaded
            raise
        logger.info("ready", extra=fields(queue=self._settings.queue, worker=self._settings.worker_name))
        while (claim := await self._next_claim()) is not None:
            await self._process(claim)

    def stop(self) -> None:
        """Drain: claim nothing more, finish the running batch within `drain_s`, hand back what is left."""
        if not self._stop.is_set():
            starting, drain_s = self.vitals.state == "starting", self._settings.drain_s
            self._stop.set()
            self.vitals.state = "draining"
            logger.info("draining", extra=fields(batch=self.vitals.batch, drain_s=drain_s))
            asyncio.get_running_loop().call_later(0 if starting else drain_s, self.abort)

    def abort(self) -> None:
        """Stop now: kill the engine, hand back the running batch; Redis gets a few seconds to take that in."""
        self._stop.set()
        self._out_of_time = True
        self._spawn(self._keeper.engine.kill())
        if self._work is not None:
            asyncio.get_running_loop().call_later(LAST_WORDS_S, self._work.cancel)

    async def _next_claim(self) -> Claim | None:
        """The batch to run next; None once we stop, when nothing that was claimed is left in our hands."""
        await self._keeper.ensure_up(self._stop)
        if self._ahead is None:
            self._ahead = await self._boarding.next_claim(self._stop)
        if self._stop.is_set():
            await self._return_ahead()
        claim, self._ahead = self._ahead, None
        return claim

    async def _return_ahead(self) -> None:
        """Hand back what was claimed and not begun."""
        claim, self._ahead = self._ahead, None
        if claim is not None:
            self._leases.drop(claim.batch)
            with contextlib.suppress(BusloadUnavailable):  # then its lease runs out
                await self._queue.hand_back(claim.batch)

    async def _process(self, claim: Claim) -> None:
        """Run one claim to its end, whatever the end is. Answers still on their way are carried in the
        background, so that the next batch need not wait for them."""
        self._leases.hold(claim.batch)
        outbox = Outbox(self._queue, claim.batch, ttl_s=self._settings.result_ttl_s)
        ride = Ride(claim, self._settings.worker_name, size=len(claim.seats))
        admission = admit(ride, claim.clock_ms())
        ride.size = len(admission.rows)
        outbox.post(admission.answers)
        run = BatchRun(ride, admission, outbox, release_rows=self._settings.release == "row")
        if admission.rows:
            await self._ride(run, outbox)
            await asyncio.sleep(0)  # the last answers leave before the next claim is asked for
        else:
            logger.info("no row of the batch runs", extra=fields(batch=claim.batch, answered=len(admission.answers)))
        await self._previous_closed()
        self._spawn(self._close(claim.batch, outbox))

    async def _ride(self, run: BatchRun, outbox: Outbox) -> None:
        began, self._run = time.monotonic(), run
        self.vitals.boarded(run.ride.claim.batch, run.ride.size)
        ended = asyncio.Event()
        ahead = asyncio.create_task(self._claim_ahead(run.ride.claim.depth, ended))
        try:
            await run.run(self._keeper.engine)
        except EngineDied as error:
            self._keeper.died()
            await self._give_up(run, outbox, str(error))
        except BatchFailed as error:
            await self._give_up(run, outbox, str(error))
        else:
            self._keeper.survived()
            run.log()
        finally:
            ended.set()
            await ahead
            if not self._keeper.up:
                await self._return_ahead()
            self._run = None
            self.vitals.proofs_broken += run.proof is not None and not run.proof.holds
            self.vitals.arrived(run_s=time.monotonic() - began)

    async def _claim_ahead(self, waiting: int, ended: asyncio.Event) -> None:
        """Claim the next batch while this one runs, if a whole one waits already: the engine then never idles.

        Other workers come first: an idle one takes it within a few milliseconds.
        """
        if waiting < self._settings.max_batch_size:
            return
        if not self.vitals.alone:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), OTHERS_FIRST_S)
        if not ended.is_set() and not self._stop.is_set():
            self._ahead = await self._boarding.full_claim(self._stop)
            if self._ahead is not None:
                self._leases.hold(self._ahead.batch)

    async def _give_up(self, run: BatchRun, outbox: Outbox, why: str) -> None:
        """Rows that ended are answered; the rest is suspect, or goes back untouched when we stopped it."""
        run.log(died="stopped by us" if self._out_of_time else why)
        await outbox.flushed()
        give = self._queue.hand_back if self._out_of_time else self._queue.release
        try:
            rows = await give(run.ride.claim.batch)
            logger.info("rows go back to the queue", extra=fields(batch=run.ride.claim.batch, rows=rows))
        except BusloadUnavailable as error:
            logger.error("rows stay in flight until the lease ends: %s", error)

    async def _close(self, batch: str, outbox: Outbox) -> None:
        await outbox.flushed()
        self._leases.drop(batch)

    async def _previous_closed(self) -> None:
        """At most one batch's answers are under way beside the running batch: memory stays bounded."""
        if self._closing:
            await asyncio.gather(*self._closing)

    async def _abort_cancelled(self) -> None:
        if (run := self._run) is None:
            return
        running = run.waiting_ids()
        wanted = await self._queue.cancels(list(running))
        indexes = frozenset(running[name] for name in wanted)
        if indexes:
            self._keeper.engine.abort(indexes)
            for index in indexes:
                run.cancel(index)

    def _lease_lost(self, batch: str) -> None:
        self.vitals.leases_lost += 1
        if self._ahead is not None and self._ahead.batch == batch:
            self._ahead = None
        logger.error("lease lost: another worker has this batch's rows now", extra=fields(batch=batch))
        if (run := self._run) is not None and run.ride.claim.batch == batch:
            self._keeper.engine.abort(frozenset(run.waiting_ids().values()))

    def _overrun(self, batch: str) -> None:
        logger.error("the batch ran longer than BUSLOAD_MAX_BATCH_S: its engine is killed", extra=fields(batch=batch))
        if self._run is not None and self._run.ride.claim.batch == batch:
            self._spawn(self._keeper.engine.kill())

    def _spawn(self, work: object) -> None:
        task = asyncio.ensure_future(work)  # type: ignore[call-overload]
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _leave(self, helpers: list[asyncio.Task[None]]) -> None:
        self.vitals.state = "draining"
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS_S):
                await self._previous_closed()
        await end([*helpers, *self._closing])
        await self._keeper.engine.stop()
        with contextlib.suppress(BusloadUnavailable):
            await self._queue.farewell(self._settings.worker_name)
        logger.info("stopped", extra=fields(batches=self.vitals.batches_done, rows=self.vitals.rows_done))
