"""A line for each partition: a server that is slow or away holds up only those who stand in its line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from busload_shared.errors import BusloadError

from .turnstile import Item, Reply, Turnstile


class Turnstiles(Turnstile[Item, Reply]):
    """Several turnstiles as one. `number_of` tells in whose line an item stands; order is kept within each."""

    def __init__(self, lines: Sequence[Turnstile[Item, Reply]], number_of: Callable[[Item], int]) -> None:
        self._lines = lines
        self._number_of = number_of

    def put(self, item: Item, told: Callable[[Reply | BusloadError], None]) -> None:
        """Stand in the item's line."""
        self._lines[self._number_of(item)].put(item, told)

    async def close(self, error: BusloadError) -> None:
        """As each of them does."""
        await asyncio.gather(*(line.close(error) for line in self._lines))
