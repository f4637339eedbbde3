"""Waits for whoever comes first in any of several partitions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence

from ..errors import BusloadUnavailable
from ..queue import Queue

REFUSED_WITHIN_S = 0.02
"""A wait that ends so soon, with nobody there, was refused: at maxmemory, or the server is away."""


class ArrivalsWatch:
    """A blocking look at each partition, on a connection of its own. A look that found nobody when another did stays
    where it is, and is used again: to break it off would cost its connection. `rang` is told who found somebody."""

    def __init__(self, parts: Sequence[Queue], rang: Callable[[int], None]) -> None:
        self._parts = parts
        self._rang = rang
        self._looks: dict[int, asyncio.Task[bool | None]] = {}

    async def wait(self, numbers: Iterable[int], *, timeout_s: float) -> bool:
        """As `Queue.wait_for_arrival`, for these partitions."""
        ends = time.monotonic() + timeout_s
        wanted = list(numbers)
        while wanted and (left := ends - time.monotonic()) > 0:
            for number in wanted:
                if number not in self._looks:
                    self._looks[number] = asyncio.create_task(self._look(number, timeout_s))
            await asyncio.wait(self._looks.values(), timeout=left, return_when=asyncio.FIRST_COMPLETED)
            told = [self._looks.pop(number).result() for number in list(self._looks) if self._looks[number].done()]
            if True in told:
                return True
            if False in told:
                return False
        return False

    async def _look(self, number: int, timeout_s: float) -> bool | None:
        """True when somebody waits, False when the server refused to wait for us, None after the time."""
        part, began = self._parts[number], time.monotonic()
        try:
            found = await part.wait_for_arrival(part.redis, timeout_s=timeout_s)
        except BusloadUnavailable:
            return False
        if found:
            self._rang(number)
            return True
        return False if time.monotonic() - began < REFUSED_WITHIN_S else None

    async def close(self) -> None:
        """Break off all looks."""
        looks, self._looks = list(self._looks.values()), {}
        for look in looks:
            look.cancel()
        await asyncio.gather(*looks, return_exceptions=True)
