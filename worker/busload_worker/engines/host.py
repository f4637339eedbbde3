"""Runs a Core in a process of its own and watches over it: the Engine that the worker uses in production."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Sequence

from pydantic import BaseModel

from busload_shared.errors import BatchFailed, EngineAbsent, EngineDied, EngineStartFailed, OutOfMemory

from .alarm import alarm
from .host_lines import Abort, Ready, Report, RunFailed, Setup, StartFailed, Told, run_line, to_line
from .host_process import HostProcess
from .protocol import BatchDone, EngineEvent, EngineInfo, EngineRow, RowDone, RowRefused
from .stall import Stall
from .tally import Tally

logger = logging.getLogger("busload.engine")

_STOP_S = 5.0
"""How long a stop waits for the running batch and the engine's own end before it kills."""

_LOADING_LOG_S = 15.0


class EngineHost:
    """An Engine in a child process. A crash, a hang or a kill of the child costs the worker nothing but the
    batch.

    `core` is "vllm", "fake" or `package.module:Class`, `config` the core's settings (a pydantic model or
    its JSON). `start_timeout_s` bounds the loading. A batch that shows no step for `hang_s` has hung: it
    must be longer than the longest single step, which is the prefill of a full batch.
    """

    def __init__(self, core: str, config: BaseModel | str, *, start_timeout_s: float, hang_s: float) -> None:
        self._core = core
        self._config = config if isinstance(config, str) else config.model_dump_json()
        self._start_timeout_s = start_timeout_s
        self._hang_s = hang_s
        self._process: HostProcess | None = None
        self._run = 0
        self._running = False
        self._aborted: frozenset[int] = frozenset()

    @property
    def pid(self) -> int | None:
        """The child's process id, None when there is none."""
        return None if self._process is None or self._process.ended.is_set() else self._process.pid

    async def start(self) -> EngineInfo:
        """Load, or load again after a death. Raises EngineStartFailed."""
        await self.kill()
        beat_s = max(0.05, min(1.0, self._hang_s / 5))
        self._process = process = await HostProcess.spawn(
            Setup(core=self._core, config=self._config, parent=os.getpid(), beat_s=beat_s)
        )
        try:
            info = await self._loaded(process)
        except BaseException:
            await self.kill()
            raise
        logger.info("engine %s is ready: model %s, pid %d", info.engine, info.model, process.pid)
        return info

    async def _loaded(self, process: HostProcess) -> EngineInfo:
        began = told = time.monotonic()
        while (spent := time.monotonic() - began) < self._start_timeout_s:
            if time.monotonic() - told > _LOADING_LOG_S:
                told = time.monotonic()
                logger.info("engine %s has been loading for %.0f s", self._core, spent)
            try:
                report = await process.report(min(1.0, self._start_timeout_s - spent))
            except TimeoutError:
                continue
            if isinstance(report, Ready):
                return report.info
            if isinstance(report, StartFailed):
                raise EngineStartFailed(report.message)
            if report is None:
                raise EngineStartFailed(f"the engine's process ended while loading: {process.obituary()}")
        raise EngineStartFailed(
            f"engine {self._core} was not ready within {self._start_timeout_s:g} s; "
            "raise BUSLOAD_ENGINE_START_S if the model is large"
        )

    async def run(self, batch: str, rows: Sequence[EngineRow]) -> AsyncIterator[EngineEvent]:
        """See Core for the order of events. Raises EngineDied, or BatchFailed if it still lives.

        A run that is given up (its iterator closed, its task cancelled) is aborted in the engine as well;
        the next run waits for that.
        """
        process = self._living()
        self._run += 1
        self._aborted = frozenset()
        line, refused = run_line(self._run, rows)
        tally = Tally(batch, (row.index for row in rows))
        stall = Stall(self._hang_s, now=time.monotonic())
        self._running, over = True, False
        process.send(line)
        try:
            for told in refused:
                tally.told(told.index)
                yield told
            while not over:
                event = await self._event(process, stall, batch)
                if isinstance(event, RowDone | RowRefused):
                    tally.told(event.index)
                    if event.index in self._aborted:
                        continue
                elif isinstance(event, BatchDone):
                    over = True
                    tally.close(self._aborted)
                    _check_proof(batch, event)
                yield event
        finally:
            self._running = False
            if not over:
                process.send(to_line(Abort(run=self._run, indexes=tuple(row.index for row in rows))))

    async def _event(self, process: HostProcess, stall: Stall, batch: str) -> EngineEvent:
        """The next event of this run; what an earlier one has left to say is passed over."""
        while True:
            report = await self._report(process, stall, batch)
            if isinstance(report, RunFailed) and report.run == self._run:
                failure = OutOfMemory if report.out_of_memory else BatchFailed
                raise failure(f"batch {batch}: {report.message}")
            if isinstance(report, Told) and report.run == self._run:
                return report.event

    async def _report(self, process: HostProcess, stall: Stall, batch: str) -> Report:
        """The next report. Raises EngineDied when none can come any more."""
        while not stall.hung:
            try:
                report = await process.report(stall.step_s)
            except TimeoutError:
                stall.look(progress=process.progress, beats=process.beats, now=time.monotonic())
                continue
            if report is None:
                raise EngineDied(f"batch {batch}: the engine's process ended: {process.obituary()}")
            stall.moved(now=time.monotonic())
            return report
        logger.error("the engine %s; killing its session, pid %d", stall.verdict(), process.pid)
        await self.kill()
        raise EngineDied(f"batch {batch}: the engine {stall.verdict()}; {process.obituary()}")

    def _living(self) -> HostProcess:
        if self._running:
            raise RuntimeError("the engine runs one batch at a time")
        if self._process is None:
            raise EngineAbsent("the engine is not started")
        if self._process.ended.is_set():
            raise EngineAbsent(f"the engine's process ended: {self._process.obituary()}")
        return self._process

    def abort(self, indexes: frozenset[int]) -> None:
        """Stop these rows of the running batch; they get no event, even if they end before the engine
        hears it."""
        if self._running and self._process is not None:
            self._aborted |= indexes
            self._process.send(to_line(Abort(run=self._run, indexes=tuple(sorted(indexes)))))

    async def kill(self) -> None:
        """End it now, whatever it does: a hung run then raises EngineDied."""
        if self._process is not None:
            self._process.kill()
            await self._process.wait()

    async def stop(self) -> None:
        """Let it end the running batch and itself; killed when that takes longer than 5 s."""
        if self._process is None or self._process.ended.is_set():
            return
        self._process.dismiss()
        try:
            async with asyncio.timeout(_STOP_S):
                await self._process.wait()
        except TimeoutError:
            logger.warning("the engine did not stop in %.0f s; killing pid %d", _STOP_S, self._process.pid)
            await self.kill()


def _check_proof(batch: str, done: BatchDone) -> None:
    if done.proof is not None and not done.proof.holds:
        logger.error("batch %s did not run as one unit: %s", batch, alarm(done.proof))
