"""The worker the demo starts: a process of its own, as in production, on the demo's Redis."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Self, TypeVar

from busload_shared.errors import BusloadError
from busload_shared.replies import QueueInfo

from .children import start_child, stop_child, tail

T = TypeVar("T")
_LOOK_S = 0.2
_STOP_S = 10.0


class WorkerFailed(BusloadError):
    """The demo's worker ended or did not get ready. The end of its log, in the message, says who must act."""


class WorkerProcess:
    """A `busload_worker` that starts with the `with` block, its settings in `env`, its output in the file `log`."""

    def __init__(self, env: Mapping[str, str], log: Path) -> None:
        self._env = {name: value for name, value in os.environ.items() if not name.startswith("BUSLOAD_")} | dict(env)
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._process = start_child([sys.executable, "-m", "busload_worker"], log=self._log, env=self._env)
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            stop_child(self._process, grace_s=_STOP_S)

    async def until_ready(
        self, look: Callable[[], Awaitable[QueueInfo]], *, within_s: float, tell: Callable[[str], None]
    ) -> None:
        """Wait until the queue lists a ready worker. Raises WorkerFailed when it ends, or takes too long."""
        began = time.monotonic()
        while not any(worker.state == "ready" for worker in (await look()).workers):
            self._must_live()
            if time.monotonic() - began > within_s:
                raise WorkerFailed(f"the worker is not ready after {within_s:.0f} s; its log ends with:\n{self._end()}")
            tell("")
            await asyncio.sleep(_LOOK_S)

    async def while_it_lives(self, work: Awaitable[T]) -> T:
        """Await the work, and give it up with WorkerFailed if the worker ends first."""
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=_LOOK_S)
                if not task.done():
                    self._must_live()
            return task.result()
        finally:
            task.cancel()

    def _must_live(self) -> None:
        code = self._process.poll() if self._process else None
        if code is not None:
            raise WorkerFailed(f"the worker ended with code {code}; its log ends with:\n{self._end()}")

    def _end(self) -> str:
        return tail(self._log)
