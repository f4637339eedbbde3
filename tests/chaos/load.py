"""The producers' processes, as the run sees them."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys

from tests.chaos.launching import SteppedClock, clean_environment, launch
from tests.chaos.ledger import Ledger
from tests.chaos.producers import Orders


class Load:
    """One process of producers; what it tells goes into the ledger."""

    def __init__(self, ledger: Ledger, orders: Orders, clock: SteppedClock | None = None) -> None:
        self._ledger = ledger
        self._orders = orders
        self._clock = clock
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self.ended = asyncio.Event()

    async def start(self) -> None:
        """Begin to produce."""
        environment = clean_environment() | (self._clock.environment() if self._clock else {})
        words = [sys.executable, "-m", "tests.chaos.producers", self._orders.to_json()]
        self._process = await launch(words, environment, stdout=asyncio.subprocess.PIPE)
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            self._note(line.decode().split())
        if not self.ended.is_set():
            self._ledger.odd.append(
                f"producers {self._orders.name} ended with {await self._process.wait()}, not asked to"
            )
        self.ended.set()

    def _note(self, words: list[str]) -> None:
        if words[0] == "sent":
            self._ledger.sent(words[1], float(words[2]))
        elif words[0] == "heard":
            self._ledger.heard(words[1], float(words[2]), words[3])
        elif words[0] == "odd":
            self._ledger.odd.append(" ".join(words[1:]))
        elif words[0] == "end":
            self.ended.set()

    def stop(self) -> None:
        """Send nothing new. `ended` is set when all that was sent is answered."""
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()

    def tell(self) -> None:
        """Let it say on stderr what it waits for."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGUSR1)

    async def close(self) -> None:
        """End it at once."""
        self.ended.set()
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        if self._reader is not None:
            await self._reader
