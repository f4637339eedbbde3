"""One batch, from its input file to its output and error files."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import Final

from busload_shared.errors import BusloadError, BusloadUnavailable

from ..bulk.job import BulkJob
from ..bulk.lines import Format, LineSource
from ..bulk.reading import Entries
from ..bulk.sink import Sink
from ..bulk.written import Job, Written
from ..wiring import Wiring
from .batch_lines import BatchLines
from .desks import Desk
from .file_store import FileStore
from .records import BatchObject, BatchProblem, BatchProblems, BatchStatus, RequestCounts

log: Final = logging.getLogger("busload.gateway")

AGAIN_S = 1.0
"""Pause before a batch goes on after Redis was away for longer than a call's patience."""


class BatchRun:
    """Runs one batch to its end; interrupted, it goes on where it was. The record on disk is its state."""

    def __init__(self, store: FileStore, owner: str, batch: BatchObject, lines: BatchLines, desk: Desk) -> None:
        self._store = store
        self._owner = owner
        self.batch: BatchObject = batch
        self._lines = lines
        self._desk = desk
        self._stopping: asyncio.Task[None] | None = None
        self._ending: BatchStatus = "completed"

    async def run(self, wiring: Wiring, *, in_flight: int) -> None:
        """Run what is left of it; a batch that was being cancelled is cancelled. Raises what reading or writing a
        file raises."""
        if self.batch.status == "cancelling":
            self._lines.stop()
            self._ending = "cancelled"
        left_s = (self.batch.expires_at or time.time()) - time.time()
        timer = asyncio.get_running_loop().call_later(max(0.0, left_s), self._expire)
        try:
            await self._count_lines()
            with suppress(BusloadError):
                self._lines.models = await self._desk.roster.models()
            while not await self._attempt(wiring, in_flight):  # noqa: ASYNC110 - nothing tells when Redis is back
                await asyncio.sleep(AGAIN_S)
        finally:
            timer.cancel()
        self._finish()

    async def cancel(self) -> BatchObject:
        """Send no more of its lines, and cancel those under way."""
        if self.batch.status in ("validating", "in_progress"):
            self._ending = "cancelled"
            self._put(cancelling := self.batch.now("cancelling", int(time.time())))
            await self._stop()
            return cancelling
        return self.batch

    def fail(self, code: str, message: str) -> None:
        """The batch as a whole cannot be run."""
        problems = BatchProblems(data=[BatchProblem(code=code, message=message)])
        self._put(self.batch.now("failed", int(time.time()), errors=problems))

    async def _count_lines(self) -> None:
        if self.batch.request_counts.total:
            return
        total = await asyncio.to_thread(_lines_in, self._source())
        counts = RequestCounts(total=total)
        if self.batch.status == "validating":
            self._put(self.batch.now("in_progress", int(time.time()), request_counts=counts))
        else:
            self._put(self.batch.model_copy(update={"request_counts": counts}))

    async def _attempt(self, wiring: Wiring, in_flight: int) -> bool:
        """To the end, or False when Redis went away."""
        job = Job(self.batch.id)
        written = Written(job)
        source = LineSource(self._source())
        output = Sink(self._store.work_file(self._owner, self.batch.id, "output"))
        errors = Sink(self._store.work_file(self._owner, self.batch.id, "errors"))
        try:
            output.recover(written, failed=False)
            errors.recover(written, failed=True)
            bulk = BulkJob(wiring, output, errors, self._lines, in_flight=in_flight)
            before = written.succeeded, written.failed

            def tell() -> None:
                failed = bulk.counts.failed + bulk.counts.invalid + before[1]
                self._count(bulk.counts.succeeded + before[0], failed)

            if self._ending != "completed":  # Redis may not have heard of it
                await self._cancel_under_way()
            entries = self._lines.of(Entries(source, Format.openai, job, written))
            await bulk.run(entries, known_until=written.last + in_flight + 1, tell=tell)
            tell()
        except BusloadUnavailable as error:
            log.warning("batch %s waits: %s", self.batch.id, error)
            return False
        finally:
            for part in (source, output, errors):
                part.close()
        return True

    def _count(self, completed: int, failed: int) -> None:
        """In memory: after a restart it is counted from the files."""
        counts = RequestCounts(total=self.batch.request_counts.total, completed=completed, failed=failed)
        self.batch = self.batch.model_copy(update={"request_counts": counts})

    def _finish(self) -> None:
        self._put(self.batch.now("finalizing", int(time.time())))
        store, owner, name = self._store, self._owner, self.batch.id
        files: dict[str, str] = {}
        for kind in ("output", "errors"):
            path = store.work_file(owner, name, kind)
            if path.exists() and path.stat().st_size:
                field = "output_file_id" if kind == "output" else "error_file_id"
                files[field] = store.take_in(owner, path, f"{name}_{kind}.jsonl", "batch_output").id
            else:
                path.unlink(missing_ok=True)
        self._put(self.batch.now(self._ending, int(time.time()), **files))
        counts = self.batch.request_counts
        log.info("batch %s %s: %d answered, %d failed", name, self._ending, counts.completed, counts.failed)

    def _expire(self) -> None:
        self._ending = "expired"
        self._stopping = asyncio.get_running_loop().create_task(self._stop())

    async def _stop(self) -> None:
        self._lines.stop()
        with suppress(BusloadError):  # Redis is away: the next attempt tells it
            await self._cancel_under_way()

    async def _cancel_under_way(self) -> None:
        await asyncio.gather(*map(self._desk.client.cancel, tuple(self._lines.under_way)))

    def _source(self) -> str:
        return str(self._store.content(self._owner, self.batch.input_file_id))

    def _put(self, batch: BatchObject) -> None:
        self.batch = batch
        self._store.put_batch(self._owner, batch)


def _lines_in(path: str) -> int:
    with open(path, "rb") as file:
        return sum(not line.isspace() for line in file)
