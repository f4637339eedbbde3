"""Who goes first when a batch has ended: the engine gets its next one, then the last one's answers are packed."""

from __future__ import annotations

import asyncio
import contextlib

LONGEST_S = 0.005
"""Longest that answers wait for the next batch: asking Redis for one and reading it takes a millisecond or two."""


class EngineFirst:
    """Packing a batch's answers takes as long as reading the next batch: done first, it would keep the engine idle."""

    def __init__(self) -> None:
        self._over = asyncio.Event()
        self._over.set()

    def begin(self) -> None:
        """The engine is free, and its next batch is on its way."""
        self._over.clear()

    def end(self) -> None:
        """The engine has it, or there is none."""
        self._over.set()

    async def over(self) -> None:
        """Until the engine is seen to, or LONGEST_S have passed."""
        if not self._over.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LONGEST_S):
                    await self._over.wait()
