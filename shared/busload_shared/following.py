"""Connection pools that ask, at each connect, where the queue is: Sentinel's master, or the cluster node of its slot.

A queue has all its keys in one slot, so plain connections to one node serve it, with scripts, blocking commands and
subscriptions as anywhere. redis-py's RedisCluster would route each command anew and repeats commands by itself.
"""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection, Connection, ConnectionPool, SSLConnection
from redis.crc import key_slot
from redis.exceptions import ConnectionError, RedisError, ResponseError, TimeoutError

from .error_codes import is_elsewhere

ASK_TIMEOUT_S = 1.0
"""How long one sentinel or node may take to tell the way: the next is asked then."""

Address = tuple[str, int]


class Route(ABC):
    """The way to the queue's server. Those who ask at the same time share one answer, or one failure.

    `seeds` are asked in random order, so that one that is dead or knows only old news is not asked for ever.
    Each is asked over a connection of its own, made with `options`: nothing stays open between.
    """

    def __init__(self, seeds: Sequence[Address], options: dict[str, Any]) -> None:
        self.current: Address | None = None
        self._seeds = list(dict.fromkeys(seeds))
        self._learned: list[Address] = []
        self._options = options | {"socket_timeout": ASK_TIMEOUT_S, "socket_connect_timeout": ASK_TIMEOUT_S, "db": 0}
        self._lock = asyncio.Lock()
        self._turn = 0
        self._outcome: Address | Exception = ConnectionError("nobody was asked")

    async def find(self) -> Address:
        """Where the server is now. Raises ConnectionError, or what those asked have refused us with."""
        turn = self._turn
        async with self._lock:
            if turn == self._turn:
                self._outcome = await self._find()
                self._turn += 1
            if isinstance(self._outcome, Exception):
                raise self._outcome
            self.current = self._outcome
            return self._outcome

    def forget(self) -> None:
        """The server is not ours any more: connections to it are not used again."""
        self.current = None

    async def _find(self) -> Address | Exception:
        failure: Exception = ConnectionError(self._nowhere())
        known = list(dict.fromkeys([*self._seeds, *self._learned]))
        for host, port in random.sample(known, len(known)):
            pool = ConnectionPool(host=host, port=port, **self._options)
            try:
                async with aclosing(Redis.from_pool(pool)) as redis:
                    found = await self._ask(redis)
            except (RedisError, OSError) as error:
                failure = error
                continue
            if found is not None:
                return found[0] or host, found[1]
        return failure

    @abstractmethod
    async def _ask(self, redis: Redis) -> Address | None:
        """What this seed knows; None when it does not. No host means its own."""

    @abstractmethod
    def _nowhere(self) -> str:
        """What to say when all answered and none knew."""


class SentinelRoute(Route):
    """To the master that the sentinels call `master`."""

    def __init__(self, seeds: Sequence[Address], options: dict[str, Any], *, master: str) -> None:
        super().__init__(seeds, options)
        self._master = master

    async def _ask(self, redis: Redis) -> Address | None:
        found = await redis.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._master)  # type: ignore[no-untyped-call]
        return None if found is None else (_text(found[0]), int(found[1]))

    def _nowhere(self) -> str:
        return f"no sentinel knows a master called {self._master!r}"


class SlotRoute(Route):
    """To the cluster node that owns the slot of `queue`."""

    def __init__(self, seeds: Sequence[Address], options: dict[str, Any], *, queue: str) -> None:
        super().__init__(seeds, options)
        self._slot = key_slot(queue.encode())

    async def _ask(self, redis: Redis) -> Address | None:
        owner = None
        nodes: list[Address] = []
        ranges = await redis.execute_command("CLUSTER", "SLOTS")  # type: ignore[no-untyped-call]
        for first, last, *servers in ranges:
            nodes += [(_text(name), int(port)) for name, port, *_ in servers]
            if first <= self._slot <= last:
                owner = nodes[-len(servers)]
        self._learned = [node for node in nodes if node[0]]
        return owner

    def _nowhere(self) -> str:
        return f"no node serves the queue's slot {self._slot} now"


def _text(name: bytes | None) -> str:
    """A host's name; empty for one that its own cluster does not know."""
    text = (name or b"").decode()
    return "" if text == "?" else text


class _Follows(Connection):
    """Goes where the route leads at each connect."""

    host: str
    port: int

    def __init__(self, *, route: Route, **options: Any) -> None:
        super().__init__(**options)
        self._route = route

    async def connect_check_health(self, *args: Any, **options: Any) -> None:
        if not self.is_connected:
            self.host, self.port = await self._route.find()
            await super().connect_check_health(*args, **options)

    async def read_response(self, *args: Any, **options: Any) -> Any:
        try:
            return await super().read_response(*args, **options)
        except (ConnectionError, TimeoutError, ResponseError) as error:
            if not isinstance(error, ResponseError) or is_elsewhere(error):
                self._route.forget()
            raise


class FollowingConnection(_Follows):
    """In plain text."""


class FollowingSSLConnection(_Follows, SSLConnection):
    """Over TLS."""


class FollowingPool(ConnectionPool):
    """A pool whose idle connections to a former server are not used again."""

    def __init__(self, route: Route, *, tls: bool, **options: Any) -> None:
        super().__init__(FollowingSSLConnection if tls else FollowingConnection, route=route, **options)
        self._route = route

    async def ensure_connection(self, connection: AbstractConnection) -> None:
        assert isinstance(connection, _Follows)
        if connection.is_connected and (connection.host, connection.port) != self._route.current:
            await connection.disconnect(nowait=True)
        await super().ensure_connection(connection)

    def has_left(self, connection: AbstractConnection) -> bool:
        """Whether the queue is known to be on another server than this connection's."""
        here = (getattr(connection, "host", None), getattr(connection, "port", None))
        return self._route.current not in (None, here)
