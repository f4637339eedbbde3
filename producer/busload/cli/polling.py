"""Results read again and again from their keys: all that a user with the analyst's rights may do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence

from busload_shared.errors import ResultTimeout
from busload_shared.result import Result

from ..async_client import AsyncClient

PAUSE_S = 0.5


async def polled(client: AsyncClient, ids: Sequence[str], timeout_s: float | None) -> AsyncGenerator[Result, None]:
    """Yield results as they are found. Raises ResultTimeout at the end for those that did not come."""
    missing, began = list(ids), time.monotonic()
    while True:
        found = await client.results(missing)
        for result in found:
            if result is not None:
                yield result
        missing = [request_id for request_id, result in zip(missing, found, strict=True) if result is None]
        if not missing:
            return
        if timeout_s is not None and time.monotonic() - began >= timeout_s:
            raise ResultTimeout(f"{len(missing)} ids have no result within {timeout_s:g} s, the first is {missing[0]}")
        await asyncio.sleep(PAUSE_S)
