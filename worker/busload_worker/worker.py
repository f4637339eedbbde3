"""The worker's loop: take the next batch, run it, write the results; and what it takes to stop in good order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time

from redis.asyncio import Redis

from busload_shared.errors import BatchFailed, BusloadUnavailable, EngineAbsent, EngineDied, EngineError
from busload_shared.queue import Queue

from .admission import Boarded, board
from .ahead import Ahead, RunEnd
from .background import Background
from .boarding import Boarding
from .choosing import Chooser, choose_in_parts
from .ending import end
from .engine_keeper import EngineKeeper
from .engines.protocol import Engine
from .housekeeping import Housekeeper
from .learning import Learner
from .leases import LeaseKeeper
from .logs import fields
from .metrics_queue import metered
from .outbox import Outbox, packed
from .running import BatchRun
from .settings import Settings
from .standing import Standing
from .tracing import BatchTrace, WorkerTracing
from .unwanted import stop_unwanted
from .victims import follow
from .vitals import Vitals
from .weight import BatchLimit

logger = logging.getLogger("busload.worker")

LAST_WORDS_S = 5.0
"""How long the end of a drain may take to hand rows back and say goodbye."""


class Worker:
    """One worker: one engine, one queue, one batch at a time. `stop()` drains it, `abort()` ends it now. It stops by
    itself, and is `broken`, when its machine kills whatever it runs. `tracing`, where it is set, makes spans."""

    def __init__(self, queue: Queue, blocking: Redis, engine: Engine, settings: Settings, *, quiet_s: float) -> None:
        self.vitals = Vitals()
        unmetered, queue = queue, metered(queue, self.vitals.meter)
        self._queue, self._settings = queue, settings
        self.tracing: WorkerTracing | None = None
        self._keeper = EngineKeeper(engine, self.vitals)
        self._limit = BatchLimit(settings.max_batch_size)
        self._standing = Standing(bad_after=settings.bad_machine_after)
        self._learner = Learner(queue, settings)
        chooser = Chooser(queue, settings, self.vitals, self._learner.lengths.lengths)
        choose_in_parts(unmetered, chooser, self._limit)
        self._boarding = Boarding(
            queue, blocking, settings, self.vitals, limit=self._limit, chooser=chooser, auto=self._learner.wait
        )
        self._leases = LeaseKeeper(
            queue,
            lease_s=settings.lease_s,
            max_batch_s=settings.max_batch_s,
            overrun=self._overrun,
            lost=self._lease_lost,
        )
        self._housekeeper = Housekeeper(
            queue, settings, self.vitals, quiet_s=quiet_s, unwanted=self._abort_unwanted, share=self._learner.share
        )
        self._stop = asyncio.Event()
        self._out_of_time = False
        self._run: BatchRun | None = None
        self._ahead = Ahead(
            queue, settings, boarding=self._boarding, leases=self._leases, limit=self._limit, vitals=self.vitals
        )
        self._background = Background()
        self._flushing: set[str] = set()
        self._work: asyncio.Task[None] | None = None
        self.broken = False

    async def run(self) -> None:
        """Work until stopped. Raises EngineStartFailed if the engine's first start fails."""
        endless = (self._housekeeper.run(), self._leases.run(), self._background.watch())
        helpers = [asyncio.create_task(one) for one in endless]
        self._work = asyncio.create_task(self._start_and_work())
        try:
            await asyncio.wait({self._work, *helpers}, return_when=asyncio.FIRST_COMPLETED)
            for helper in (helper for helper in helpers if helper.done()):
                await end([self._work])
                helper.result()  # a bug: no worker without heartbeats and leases, or with answers that do not leave
            if self._work.cancelled():
                logger.error("stopped with answers that Redis did not take: their rows run again elsewhere")
            else:
                self._work.result()
        finally:
            await self._leave(helpers)

    async def _start_and_work(self) -> None:
        if self._stop.is_set():
            return
        try:
            await self._keeper.first_start()
        except EngineError:
            if self._stop.is_set():
                return  # we killed it ourselves, while it loaded
            raise
        logger.info("ready", extra=fields(queue=self._settings.queue, worker=self._settings.worker_name))
        while (boarded := await self._next_batch()) is not None:
            await self._process(boarded)

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
        self._background.spawn(self._keeper.engine.kill())
        if self._work is not None:
            asyncio.get_running_loop().call_later(LAST_WORDS_S, self._work.cancel)

    async def _next_batch(self) -> Boarded | None:
        """The batch to run next; None once we stop, when nothing that was claimed is left in our hands."""
        await self._keeper.ensure_up(self._stop)
        if self._stop.is_set():
            await self._ahead.give_back()
        if (ready := await self._ahead.take()) is not None:
            return ready
        await asyncio.sleep(0)  # the last answers leave before the next claim is asked for
        claim = await self._boarding.next_claim(self._stop)
        if claim is not None and self._stop.is_set():
            with contextlib.suppress(BusloadUnavailable):  # then its lease runs out
                await self._queue.hand_back(claim.batch)
            return None
        if claim is None:
            return None
        self._leases.hold(claim.batch)
        return await board(claim, self._settings.worker_name, pace_ms=self.vitals.pace_ms)

    async def _process(self, boarded: Boarded) -> None:
        """Run one claim to its end, whatever the end is. Answers still on their way are carried in the
        background, so that the next batch need not wait for them."""
        ride, admission = boarded
        claim = ride.claim
        self._leases.hold(claim.batch)
        engine_first, ttl_s = self._ahead.engine_first, self._settings.result_ttl_s
        outbox = Outbox(self._queue, claim.batch, ttl_s=ttl_s, engine_first=engine_first)
        outbox.post([packed(answer) for answer in admission.answers])
        learn = self._learner.row if self._learner.wanted else None
        run = BatchRun(ride, admission, outbox, release_rows=self._settings.release == "row", learn=learn)
        run.meter = self.vitals.meter
        if self.tracing is not None and (trace := self.tracing.board(ride, admission)) is not None:
            run.trace, outbox.delivered = trace, trace.delivered
        if admission.rows:
            await self._ride(run, outbox)
        else:
            logger.info("no row of the batch runs", extra=fields(batch=claim.batch, answered=len(admission.answers)))
        self._flushing.add(claim.batch)
        await self._answers_leave()
        self._background.spawn(self._close(claim.batch, outbox, run.trace))

    async def _ride(self, run: BatchRun, outbox: Outbox) -> None:
        began, self._run = time.monotonic(), run
        self.vitals.boarded(run.ride.claim.batch, run.ride.size)
        ended = RunEnd()
        ahead = asyncio.create_task(self._ahead.fetch(run.ride.claim, ended=ended, stop=self._stop))
        try:
            await run.run(self._keeper.engine)
            await self._ahead.engine_free(ended, well=not run.out_of_memory)
        except EngineDied as error:
            await self._died(run, outbox, error)
        except BatchFailed as error:
            await self._give_up(run, outbox, str(error))
        else:
            self._arrived_well(run)
        finally:
            ended.set()
            self._book(run, run_s=time.monotonic() - began)
            await ahead
            if not self._keeper.up:
                await self._ahead.give_back()

    def _book(self, run: BatchRun, *, run_s: float) -> None:
        self._run = None
        self.vitals.proofs_broken += run.proofs_broken
        self.vitals.out_of_memory += run.out_of_memory
        run.weigh(self._limit)
        self._boarding.head_start.began(run.ride)
        self.vitals.arrived(run_s=run_s, past=run.past())
        if self._learner.wait is not None:
            self._learner.wait.ended(run.now_ms(), self.vitals.fit.curve())

    def _arrived_well(self, run: BatchRun) -> None:
        self._keeper.survived()
        self._standing.survived()
        if not run.out_of_memory:
            self.vitals.learn(run.done, longest=run.longest, pace_ms=run.pace_ms)
        if run.most_at_once:
            run.log()

    async def _died(self, run: BatchRun, outbox: Outbox, error: EngineDied) -> None:
        self._keeper.died()
        absent = isinstance(error, EngineAbsent)
        await self._give_up(run, outbox, str(error), blameless=absent)
        if self._stop.is_set():
            return
        self._standing.died(None if absent else run.ride.claim)
        self._judge()

    def _judge(self) -> None:
        if self._standing.broken and not self._stop.is_set():
            self.broken, self.vitals.state = True, "broken"
            logger.error(self._standing.verdict(), extra=fields(worker=self._settings.worker_name))
            self._stop.set()

    async def _give_up(self, run: BatchRun, outbox: Outbox, why: str, *, blameless: bool = False) -> None:
        """Rows that ended are answered; the rest is suspect, or goes back untouched when it is not to blame."""
        claim = run.ride.claim
        why = "stopped by us" if self._out_of_time else why
        run.log(died=why)
        if run.trace is not None:
            run.trace.died = why
        await outbox.flushed()
        self._leases.drop(claim.batch)  # should Redis not hear of it, the lease runs out meanwhile
        try:
            if blameless or self._out_of_time:
                rows = await self._queue.hand_back(claim.batch)
            else:
                evidence = self._standing.counts(claim, alone=self.vitals.alone)
                rows = await self._queue.release(claim.batch, evidence=evidence)
            logger.info("rows go back to the queue", extra=fields(batch=claim.batch, rows=rows))
        except BusloadUnavailable as error:
            logger.error("rows stay in flight until the lease ends: %s", error)

    async def _close(self, batch: str, outbox: Outbox, trace: BatchTrace | None) -> None:
        await outbox.flushed()
        self._leases.drop(batch)
        self._flushing.discard(batch)
        if trace is not None:
            await trace.end()

    async def _answers_leave(self) -> None:
        """At most two batches' answers are under way when the next begins, or one more than there are partitions, of
        which some may be away: memory stays bounded."""
        if self._background.size > len(self._queue.parts):
            self._ahead.engine_first.end()  # it must wait for Redis in any case
            await self._background.down_to(len(self._queue.parts))

    async def _abort_unwanted(self) -> None:
        await stop_unwanted(self._queue, self._keeper.engine, lambda: self._run)
        await self._ahead.sift()
        await follow(self._queue, self._standing)
        if self._run is None:  # a batch that runs may yet run well
            self._judge()

    def _lease_lost(self, batch: str) -> None:
        if batch in self._flushing:
            return  # its last answer took the lease with it, and only its replicas are waited for; or it is refused
        run = self._run if self._run is not None and self._run.ride.claim.batch == batch else None
        if run is not None and not run.waiting_ids():
            return  # the lease went with the last answer, and only the engine has not ended yet
        self.vitals.leases_lost += 1
        self._ahead.lost(batch)
        logger.error("lease lost: another worker has this batch's rows now", extra=fields(batch=batch))
        if run is not None:
            run.abandon()
            self._keeper.engine.abort(frozenset(run.waiting_ids().values()))

    def _overrun(self, batch: str) -> None:
        logger.error("the batch ran longer than BUSLOAD_MAX_BATCH_S: its engine is killed", extra=fields(batch=batch))
        if self._run is not None and self._run.ride.claim.batch == batch:
            self._background.spawn(self._keeper.engine.kill())

    async def _leave(self, helpers: list[asyncio.Task[None]]) -> None:
        self.vitals.state = "broken" if self.broken else "draining"
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS_S):
                await self._background.down_to(0)
        await end(helpers)
        await self._background.end()
        await self._keeper.engine.stop()
        if self.broken:
            await self._housekeeper.tick()  # its last record stays until it expires, for whoever looks
        else:
            with contextlib.suppress(BusloadUnavailable):
                await self._queue.farewell(self._settings.worker_name)
        logger.info("stopped", extra=fields(batches=self.vitals.batches_done, rows=self.vitals.rows_done))
