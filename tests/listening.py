"""Listening in tests: from the moment Redis has confirmed it. What is published before that is not heard."""

from __future__ import annotations

import asyncio

from redis.asyncio.client import PubSub

LONGEST_S = 20.0


async def listen_to(listener: PubSub, *channels: str) -> None:
    """Subscribe, and wait until every channel is."""
    await listener.subscribe(*channels)
    await _confirmed(listener, len(channels))


async def listen_to_pattern(listener: PubSub, pattern: str) -> None:
    """Subscribe to a pattern, and wait until it is."""
    await listener.psubscribe(pattern)
    await _confirmed(listener, 1)


async def _confirmed(listener: PubSub, channels: int) -> None:
    async with asyncio.timeout(LONGEST_S):
        for _ in range(channels):
            await listener.handle_message(await listener.parse_response(block=True))  # type: ignore[no-untyped-call]
