"""For a Redis with replicas: a submit and a delivery count once so many replicas have them.

Redis replicates after it has answered. What it acknowledged and had not yet passed on is lost in a failover;
WAIT tells that it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection

from .connection import READ_TIMEOUT_S
from .errors import NotReplicated, SettingsInvalid
from .lines import Lines
from .queue import Queue
from .scripts import Script

_CURES = {"submit": "submit again with the same id", "deliver": "it is delivered again until they have it"}
"""The scripts that replicas must confirm, and what follows when they do not."""

_MARK_MS = 3_600_000
_LONGEST_WAIT_MS = int(READ_TIMEOUT_S * 1000) - 1000


@dataclass(frozen=True, slots=True)
class Copies:
    """How many replicas must have a write, within how many ms. Raises SettingsInvalid."""

    replicas: int = 0
    timeout_ms: int = 1000

    def __post_init__(self) -> None:
        if self.replicas < 0 or not 1 <= self.timeout_ms <= _LONGEST_WAIT_MS:
            raise SettingsInvalid(
                f"wait_replicas={self.replicas}, wait_timeout_ms={self.timeout_ms}: wait for 0 or more replicas, "
                f"for 1 to {_LONGEST_WAIT_MS} ms"
            )


def queue_with(copies: Copies, redis: Redis, name: str, *, patience_s: float) -> Queue:
    """A Queue; without replicas to wait for the plain one, at no cost."""
    if copies.replicas == 0:
        return Queue(redis, name, patience_s=patience_s)
    return ReplicatedQueue(redis, name, patience_s=patience_s, copies=copies)


class ReplicatedQueue(Queue):
    """A queue whose `submit` and `deliver` raise NotReplicated when the replicas lag. The master has done it then;
    the same call again does nothing but wait for them."""

    def __init__(self, redis: Redis, name: str, *, patience_s: float, copies: Copies) -> None:
        super().__init__(redis, name, patience_s=patience_s)
        for script, cure in _CURES.items():
            confirming = _Confirming(redis, self.keys.replicated, copies, cure)
            self._scripts[script] = Script(confirming, Lines(confirming), script)


class _Confirming(Redis):
    """Shares a client's pool; its scripts return once the replicas have what they wrote.

    WAIT is about what its own connection wrote, so all goes over one. A script that is repeated may write nothing
    (Redis 8 would not wait for anything then), so a key of ours is written behind it, in a way that a Redis at
    maxmemory allows.
    """

    def __init__(self, redis: Redis, mark: str, copies: Copies, cure: str) -> None:
        super().__init__(connection_pool=redis.connection_pool)
        self._mark = mark
        self._copies = copies
        self._cure = cure

    async def evalsha(self, *call: Any) -> Any:
        pool = self.connection_pool
        connection: AbstractConnection = await pool.get_connection()  # type: ignore[no-untyped-call]
        try:
            reply, copies = await self._run(connection, call)
        except BaseException:
            await connection.disconnect(nowait=True)  # replies may be under way
            raise
        finally:
            await pool.release(connection)
        if copies < self._copies.replicas:
            want, timeout_ms = self._copies.replicas, self._copies.timeout_ms
            raise NotReplicated.lagging(have=copies, want=want, timeout_ms=timeout_ms, cure=self._cure)
        return reply

    async def _run(self, connection: AbstractConnection, call: tuple[Any, ...]) -> tuple[Any, int]:
        wait = ("WAIT", self._copies.replicas, self._copies.timeout_ms)
        commands = [("EVALSHA", *call), ("PEXPIRE", self._mark, _MARK_MS), wait]
        reply, marked, copies = await _exchange(connection, commands)
        if not marked:
            _, copies = await _exchange(connection, [("SET", self._mark, "1", "PX", _MARK_MS), wait])
        return reply, int(copies)


async def _exchange(connection: AbstractConnection, commands: list[tuple[Any, ...]]) -> list[Any]:
    await connection.send_packed_command(connection.pack_commands(commands))
    return [await connection.read_response() for _ in commands]
