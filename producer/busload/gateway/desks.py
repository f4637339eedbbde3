"""What the gateway has for each queue: a client and the roster of its workers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from .. import AsyncClient
from .roster import Roster
from .settings import GatewaySettings


@dataclass(frozen=True, slots=True)
class Desk:
    """One queue."""

    queue: str
    client: AsyncClient
    roster: Roster


def partitions_of(queue: str, settings: GatewaySettings) -> int:
    """Over how many lists the queue is spread: that of keys that name none, as the settings say; others are whole."""
    return settings.partitions if queue == settings.queue else 1


class Desks:
    """Opens a desk at its first use. Close them all at the end."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._settings = settings
        self._desks: dict[str, Desk] = {}

    def of(self, queue: str | None) -> Desk:
        """The desk of a queue; None for the gateway's own."""
        name = queue or self._settings.queue
        desk = self._desks.get(name)
        if desk is None:
            desk = self._desks[name] = self._open(name)
        return desk

    async def close(self) -> None:
        """Disconnect; whoever still waits gets BusloadError, and his request goes on."""
        desks, self._desks = list(self._desks.values()), {}
        await asyncio.gather(*(desk.client.close() for desk in desks))

    def _open(self, name: str) -> Desk:
        chosen = self._settings
        client = AsyncClient(
            chosen.redis_url.get_secret_value(),
            queue=name,
            max_queue_length=chosen.max_queue_length,
            result_ttl_s=chosen.result_ttl_s,
            patience_s=chosen.patience_s,
            partitions=partitions_of(name, chosen),
        )
        return Desk(name, client, Roster(client, chosen.model_names))
