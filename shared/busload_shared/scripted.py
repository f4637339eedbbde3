"""How the scripts of one queue are run: repeated while Redis is away, on a clock that tests can hold."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from redis.asyncio import Redis

from .connection import persist
from .keys import Keys
from .scripts import callables


class Scripted:
    """Runs the scripts on the queue with these keys. `now_ms` is for tests that hold the clock, Unix ms."""

    def __init__(self, redis: Redis, keys: Keys, *, patience_s: float) -> None:
        self.keys = keys
        self.redis = redis
        self.now_ms: float | None = None
        self._patience_s = patience_s
        self._scripts = callables(redis)

    async def close(self) -> None:
        """Let go of the connections."""
        await self.redis.aclose()

    def _now(self) -> str | float:
        return "" if self.now_ms is None else self.now_ms

    def _run(self, script: str, keys: Sequence[str], args: Sequence[Any]) -> Awaitable[Any]:
        return self._persist(partial(self._scripts[script], keys=keys, args=args))

    def _persist(self, call: Callable[[], Awaitable[Any]]) -> Awaitable[Any]:
        return persist(call, patience_s=self._patience_s)
