"""One worker process of the fleet, behind a proxy of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from pathlib import Path

from tests.chaos.launching import SteppedClock, clean_environment, launch
from tests.chaos.proxy import Proxy

READY_S = 300.0
"""A real engine may take minutes to load, when the machine is busy."""


class ChaosWorker:
    """A place in the fleet: the process in it is killed and replaced, the place, its proxy and its clock stay.

    `code` is the folder of an older version to run, None for this one.
    """

    def __init__(
        self, name: str, folder: Path, proxy: Proxy, settings: dict[str, str], clock: SteppedClock | None = None
    ) -> None:
        self.name = name
        self.proxy = proxy
        self._clock = clock
        self.code: Path | None = None
        self.busy = False
        self._folder = folder
        self._settings = settings
        self._life = 0
        self._process: asyncio.subprocess.Process | None = None

    @property
    def process_name(self) -> str:
        """What results and batches call the process that is in this place now."""
        return f"{self.name}.{self._life}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def lives(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def ready(self) -> bool:
        return self.lives and self._ready_file.exists()

    @property
    def _ready_file(self) -> Path:
        return self._folder / f"{self.name}.{self._life}.ready"

    async def start(self) -> None:
        """Start a process in this place; `came_up` waits for it."""
        self._life += 1
        told = self._settings | {
            "redis_url": self.proxy.url,
            "ready_file": str(self._ready_file),
            "worker_name": self.process_name,
        }
        environment = clean_environment() | {f"BUSLOAD_{name.upper()}": value for name, value in told.items()}
        if self._clock is not None:
            environment |= self._clock.environment()
        if self.code is not None:
            environment["PYTHONPATH"] = ":".join(str(self.code / part) for part in ("producer", "shared", "worker"))
        with (self._folder / f"{self.name}.log").open("ab") as log:
            self._process = await launch([sys.executable, "-m", "busload_worker"], environment, stdout=log, stderr=log)

    async def came_up(self, *, timeout_s: float = READY_S) -> None:
        """Wait until it is ready. One that ended is started again, as a supervisor would."""
        give_up = time.monotonic() + timeout_s
        while not self.ready:
            if time.monotonic() > give_up:
                raise RuntimeError(f"{self.name} is not ready within {timeout_s:.0f} s:\n{self.last_words()}")
            if not self.lives:
                await asyncio.sleep(0.2)
                await self.start()
            await asyncio.sleep(0.02)

    def signal(self, number: int) -> None:
        """To the worker itself, not to its engine."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)

    async def ended(self, *, timeout_s: float) -> int | None:
        """Its exit code; None when it did not end in time."""
        assert self._process is not None
        with contextlib.suppress(TimeoutError):
            return await asyncio.wait_for(self._process.wait(), timeout_s)
        return None

    def kill_engine(self) -> None:
        """kill -9 to its children."""
        for pid in children_of(self.pid) if self.lives else []:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def last_words(self) -> str:
        """The end of its log."""
        return (self._folder / f"{self.name}.log").read_text(encoding="utf-8", errors="replace")[-2000:]

    async def close(self) -> None:
        """End it at once."""
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGKILL)
        if self._process is not None:
            await self._process.wait()


def children_of(pid: int) -> list[int]:
    """Linux tells each process's parent in /proc."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            after_name = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            if int(after_name[1]) == pid:
                found.append(int(stat.parent.name))
    return found
