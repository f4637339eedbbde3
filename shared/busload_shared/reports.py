"""What housekeeping tasks did in each interval: written once, so that a task may run twice."""

from __future__ import annotations

from .scripted import Scripted

RUNNING = b"running"


class Reports(Scripted):
    """Reports by kind and interval number. Each goes by itself when its time is over."""

    async def begin(self, kind: str, interval: int, *, lease_s: float) -> bytes | None:
        """None when this interval is ours to do; else its report, or RUNNING while another does it.

        Whoever dies while doing it lets the lease run out, and the next may.
        """
        key = self.keys.report(f"{kind}:{interval}")
        lease_ms = int(lease_s * 1000)
        if await self._persist(lambda: self.redis.set(key, RUNNING, nx=True, px=lease_ms)):
            return None
        return await self.read(kind, interval) or RUNNING

    async def write(self, kind: str, interval: int, report: bytes, *, ttl_s: float) -> None:
        """Keep the report for `ttl_s`."""
        key = self.keys.report(f"{kind}:{interval}")
        ttl_ms = int(ttl_s * 1000)
        await self._persist(lambda: self.redis.set(key, report, px=ttl_ms))

    async def read(self, kind: str, interval: int) -> bytes | None:
        """The report of this interval, RUNNING, or None."""
        key = self.keys.report(f"{kind}:{interval}")
        found: bytes | None = await self._persist(lambda: self.redis.get(key))
        return found

    async def times_redriven(self, request_id: str) -> int:
        """How often this id was put back by housekeeping."""
        key = self.keys.redriven(request_id)
        return int(await self._persist(lambda: self.redis.get(key)) or 0)

    async def count_redrive(self, request_id: str, times: int, *, ttl_s: float) -> None:
        """Note that it is put back for the `times`-th time; forgotten after `ttl_s`."""
        key = self.keys.redriven(request_id)
        ttl_ms = int(ttl_s * 1000)
        await self._persist(lambda: self.redis.set(key, times, px=ttl_ms))
