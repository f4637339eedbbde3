"""The Redis of a chaos run: with an append-only file, so that it comes back with its data."""

from __future__ import annotations

import asyncio
import contextlib
import time

import redis
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import ConstantBackoff
from tests.redis_servers import WANTED, Server, binaries

COMES_UP_S = 60.0


class ChaosServer(Server):
    """A Server that keeps what it acknowledged, and can be ended and brought up again without blocking us.

    `kept`: its folder stays when it is removed.
    """

    kept = False

    @classmethod
    def of(cls, version: str, *, fsync: str) -> ChaosServer:
        """Not started yet. Raises SystemExit when there is no such server here."""
        found = binaries()
        if version not in found:
            raise SystemExit(f"redis-server {version} is not installed here: {WANTED.get(version, 'install it')}")
        more = {"appendonly": "yes", "appendfsync": fsync}
        if version >= "7":  # with the times and all of the past, so that a loss can be looked into
            more |= {"enable-debug-command": "local", "aof-timestamp-enabled": "yes", "aof-disable-auto-gc": "yes"}
        return cls(found[version], version, more)

    def direct(self) -> Redis:
        """A client past all proxies."""
        return Redis(port=self.port, socket_timeout=30, retry=Retry(ConstantBackoff(0.02), 3))

    async def end(self, *, gently: bool) -> None:
        """SHUTDOWN, or kill -9."""
        if gently:
            async with self.direct() as client:
                with contextlib.suppress(redis.RedisError):
                    await client.execute_command("SHUTDOWN")
            await asyncio.to_thread(self._wait)
        self.stop()

    def remove(self) -> None:
        """Stop it and delete its folder, unless it is to be looked into."""
        if self.kept:
            self.stop()
        else:
            super().remove()

    def _wait(self) -> None:
        assert self._process is not None
        with contextlib.suppress(Exception):
            self._process.wait(timeout=20)

    async def come_up(self) -> None:
        """Start on the same port and wait until it has loaded its data. Nobody else may answer in its place."""
        self._launch()
        give_up = time.monotonic() + COMES_UP_S
        async with self.direct() as client:
            while time.monotonic() < give_up and self._process is not None and self._process.poll() is None:
                with contextlib.suppress(redis.RedisError, OSError):
                    if await client.ping() and (await client.info("server"))["process_id"] == self._process.pid:
                        return
                await asyncio.sleep(0.01)
        raise RuntimeError(f"Redis {self.version} did not come up again within {COMES_UP_S:.0f} s")
