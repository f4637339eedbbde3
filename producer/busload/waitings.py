"""Who waits for results of partitions on different servers: each server's answers are waited for apart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from busload_shared.errors import BusloadError
from busload_shared.replies import SubmitState
from busload_shared.result import Result

from .waiting import Waiting


class Waitings(Waiting):
    """One Waiting for each partition, as one: a server that is away holds up only those who wait for its answers."""

    def __init__(self, parts: Sequence[Waiting], number_of: Callable[[str], int]) -> None:
        self._parts = parts
        self._number_of = number_of

    def _of(self, request_id: str) -> Waiting:
        return self._parts[self._number_of(request_id)]

    def expect(self, request_id: str, *, patient: bool = False) -> asyncio.Future[Result]:
        """As Waiting does, in its partition."""
        return self._of(request_id).expect(request_id, patient=patient)

    async def outcome(self, request_id: str, future: asyncio.Future[Result], timeout_s: float | None = None) -> Result:
        """As Waiting does, in its partition."""
        return await self._of(request_id).outcome(request_id, future, timeout_s)

    def forget(self, request_id: str, future: asyncio.Future[Result]) -> None:
        """As Waiting does, in its partition."""
        self._of(request_id).forget(request_id, future)

    def look_up(self, request_ids: Iterable[str]) -> None:
        """As Waiting does, each in its partition."""
        for request_id in request_ids:
            self._of(request_id).look_up((request_id,))

    def is_sending(self, request_id: str) -> bool:
        """As Waiting does, in its partition."""
        return self._of(request_id).is_sending(request_id)

    def sending(self, request_id: str) -> None:
        """As Waiting does, in its partition."""
        self._of(request_id).sending(request_id)

    def sent(self, request_id: str, state: SubmitState | None) -> None:
        """As Waiting does, in its partition."""
        self._of(request_id).sent(request_id, state)

    async def close(self, error: BusloadError) -> None:
        """All of them."""
        await asyncio.gather(*(part.close(error) for part in self._parts))
