"""Which models a queue's workers serve, as they say themselves."""

from __future__ import annotations

import asyncio
import time
from pathlib import PurePath

from busload_shared.errors import BusloadError, BusloadUnavailable
from busload_shared.replies import QueueInfo

from .. import AsyncClient
from .refused import not_found

FRESH_S = 1.0
"""So long one look at the workers serves all callers. An older one serves them while a new one is taken."""


class Roster:
    """Looks at the workers' records while somebody asks. `aliases` are further names for what they serve."""

    def __init__(self, client: AsyncClient, aliases: tuple[str, ...] = ()) -> None:
        self._client = client
        self._aliases = aliases
        self._models: tuple[str, ...] | None = None
        self._looked_at = -FRESH_S
        self._look: asyncio.Task[None] | None = None

    async def models(self) -> tuple[str, ...]:
        """The models of the workers that are up, and the aliases when there is one. Raises BusloadUnavailable."""
        await self._looking()
        return self._names()

    async def name_for(self, asked: str | None) -> str:
        """The name under which to answer. Raises Refused with 404 for a model that no worker here serves.

        While no worker is up any name will do: the request waits for one.
        """
        if time.monotonic() - self._looked_at > FRESH_S:
            if self._models and (asked is None or asked in self._models or asked in self._aliases):
                self._looking().add_done_callback(_heard)
            else:
                try:
                    await self._looking()
                except BusloadUnavailable:
                    return asked or "unknown"  # the submit that follows tells it
        served = self._models or ()
        if asked is None:
            return served[0] if served else "unknown"
        if served and asked not in served and asked not in self._aliases:
            raise unknown_model(asked, self._names())
        return asked

    def _names(self) -> tuple[str, ...]:
        return (*self._models, *self._aliases) if self._models else ()

    def _looking(self) -> asyncio.Future[None]:
        """One look at a time, whoever asks; it goes on when he leaves."""
        if self._look is None or self._look.done():
            self._look = asyncio.get_running_loop().create_task(self._take_a_look())
        return asyncio.shield(self._look)

    async def _take_a_look(self) -> None:
        info = await self._client.queue_info()
        self._models = served_by(info)
        self._looked_at = time.monotonic()


def served_by(info: QueueInfo) -> tuple[str, ...]:
    """The models' names, each once; of a folder its last part."""
    up = [worker.model for worker in info.workers if worker.state not in ("broken", "draining") and worker.model]
    return tuple(sorted({PurePath(model).name if model.startswith(("/", "~")) else model for model in up}))


def unknown_model(asked: str, served: tuple[str, ...]) -> BusloadError:
    """404, as OpenAI has it."""
    names = ", ".join(served) or "none, for no worker is up"
    return not_found(f"the model {asked[:64]!r} is not served here; there are: {names}", param="model")


def _heard(look: asyncio.Future[None]) -> None:
    """Redis may be away: whoever submits is told so."""
    if not look.cancelled():
        look.exception()
