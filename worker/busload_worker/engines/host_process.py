"""The engine's process as the worker sees it: start it, send it lines, read its reports, end its session."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections import deque

from pydantic import ValidationError

from .host_lines import MAX_LINE_BYTES, REPORTS, Beat, Report, Setup, Stop, to_line

logger = logging.getLogger("busload.engine")

_DRAIN_S = 0.5
"""How long reports are still read after the process ended: what it wrote before lies in the pipe."""

_WORDS_KEPT = 20
_WORD_LENGTH = 400


class HostProcess:
    """One life of the child. `spawn` makes it; after `ended` is set it never comes back.

    `progress` is how many steps its engine has made, `beats` how often its process has shown to be alive.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._reports: asyncio.Queue[Report | None] = asyncio.Queue()
        self._words: deque[str] = deque(maxlen=_WORDS_KEPT)
        self._readers = (
            asyncio.create_task(self._read_reports(), name="engine reports"),
            asyncio.create_task(self._read_words(), name="engine stderr"),
        )
        self.ended = asyncio.Event()
        self.progress = 0
        self.beats = 0
        self._expected = False
        self._watch = asyncio.create_task(self._watch_end(), name="engine end")

    @classmethod
    async def spawn(cls, setup: Setup) -> HostProcess:
        """Start the child in its own session and hand it its setup."""
        environment = {name: value for name, value in os.environ.items() if name != "BUSLOAD_REDIS_URL"}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "busload_worker.engines.host_child",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            env=environment,  # an engine has no business with Redis, nor with its password
            limit=MAX_LINE_BYTES,
        )
        host = cls(process)
        host.send(to_line(setup))
        return host

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, line: bytes) -> None:
        """Write without waiting: a dead child shows in `report`, not here."""
        if self._process.stdin is not None and not self._process.stdin.is_closing():
            self._process.stdin.write(line)

    async def report(self, timeout_s: float) -> Report | None:
        """The next report, None for ever once the process ended. Raises TimeoutError."""
        if self.ended.is_set() and self._reports.empty():
            return None
        if not self._reports.empty():
            return self._reports.get_nowait()
        async with asyncio.timeout(timeout_s):
            return await self._reports.get()

    def dismiss(self) -> None:
        """Ask it to end after the running batch."""
        self._expected = True
        self.send(to_line(Stop()))

    def kill(self) -> None:
        """SIGKILL to the whole session: the child, and the workers that an engine started for its GPUs."""
        self._expected = True
        self._kill_session()

    def _kill_session(self) -> None:
        if self.ended.is_set():
            return  # the number may be another process's by now
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    async def wait(self) -> None:
        """Until it ended and all it said is read."""
        await asyncio.shield(self._watch)

    def obituary(self) -> str:
        """How it ended, and the last it said."""
        status = self._process.returncode
        if status is None:
            how = "its pipe closed"
        elif status < 0:
            how = f"killed by {signal.Signals(-status).name}"
        else:
            how = f"exit status {status}"
        words = [word for word in self._words if word.strip()][-3:]
        return f"pid {self.pid}, {how}" + (f"; its last words: {' | '.join(words)}" if words else "")

    async def _watch_end(self) -> None:
        """What outlives the child is ended with it: it would hold the pipes, and the GPU's memory."""
        await self._process.wait()
        self._kill_session()
        _, slow = await asyncio.wait(self._readers, timeout=_DRAIN_S)
        for reader in slow:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)
        if self._process.stdin is not None:
            self._process.stdin.close()
        if not self._expected:
            logger.error("the engine's process ended by itself: %s", self.obituary())
        self.ended.set()
        self._reports.put_nowait(None)

    async def _read_reports(self) -> None:
        stream = self._process.stdout
        assert stream is not None
        try:
            while line := await stream.readline():
                self._hear_report(REPORTS.validate_json(line))
        except (ValidationError, ValueError) as error:
            logger.error("the engine's process wrote what is no report (%s): it is killed", type(error).__name__)
        # The pipe is closed, or cannot be trusted any more; either way this life is over.
        self._kill_session()

    def _hear_report(self, report: Report) -> None:
        """Beats are counted, not kept: they come for as long as the engine is idle."""
        if isinstance(report, Beat):
            self.progress = report.progress
            self.beats += 1
        else:
            self._reports.put_nowait(report)

    async def _read_words(self) -> None:
        """Forward stderr. It may hold prompts, so it is logged at DEBUG only."""
        stream = self._process.stderr
        assert stream is not None
        rest = b""
        while chunk := await stream.read(65536):
            *lines, rest = (rest + chunk).split(b"\n")
            rest = rest[-65536:]
            for line in lines:
                self._hear(line)
        if rest:
            self._hear(rest)

    def _hear(self, line: bytes) -> None:
        word = line.decode(errors="replace").rstrip()
        self._words.append(word[:_WORD_LENGTH])
        logger.debug("%s", word)
