"""Partitions whose Redis does not answer: left out of every round, and asked in the background until they do."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ..errors import BusloadUnavailable

T = TypeVar("T")

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 1.0

ANSWERS_WITHIN_S = 2.0
"""A server that takes longer holds up the partitions of others, and is left out until it answers."""


async def within(call: Awaitable[T], *, longest_s: float = ANSWERS_WITHIN_S) -> T:
    """What the call returns. Raises BusloadUnavailable when it takes too long: a connection may be mute for longer than
    others can wait."""
    try:
        async with asyncio.timeout(longest_s):
            return await call
    except TimeoutError:
        raise BusloadUnavailable(f"Redis does not answer within {longest_s:g} s: see that it runs") from None


class Absent:
    """Numbers of partitions. `ask` asks one, and raises BusloadUnavailable while it does not answer."""

    def __init__(self, ask: Callable[[int], Awaitable[object]]) -> None:
        self._ask = ask
        self._asking: dict[int, asyncio.Task[None]] = {}

    def __contains__(self, number: int) -> bool:
        return number in self._asking

    def __len__(self) -> int:
        return len(self._asking)

    def add(self, number: int) -> None:
        """It did not answer: nobody need wait for it until it does."""
        if number not in self._asking:
            self._asking[number] = asyncio.get_running_loop().create_task(self._until_it_answers(number))

    async def _until_it_answers(self, number: int) -> None:
        pause = FIRST_PAUSE_S
        try:
            while True:
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))
                pause = min(2 * pause, LONGEST_PAUSE_S)
                try:
                    await self._ask(number)
                except BusloadUnavailable:
                    continue
                return
        finally:
            self._asking.pop(number, None)

    async def close(self) -> None:
        """Ask no more."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
