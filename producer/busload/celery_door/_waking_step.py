"""The part of a Celery worker that runs the waker, in a thread of the worker's main process."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from celery import bootsteps, signals
from celery.worker import state as worker_state

from .door import Door
from .settings import DoorSettings
from .waker import Waker

_logger = logging.getLogger(__name__)

_PAUSE_S = 1.0
_STOP_S = 5.0
_REVOKED_S = 0.5
"""How often the worker's list of revoked tasks is read: Celery has no event for a task that is parked."""


class WakingThread:
    """Runs a waker until it is stopped; one that breaks is started anew."""

    def __init__(self, app: Any, settings: DoorSettings) -> None:
        self._app = app
        self._settings = settings
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._waker: Waker | None = None
        self._seen: set[str] = set()
        self._errands: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name="busload-waker", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End it; what is parked is woken by another worker, or by the next."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(_STOP_S)

    def forget(self, task_id: str) -> None:
        """See `Waker.forget`. From any thread."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._forget, task_id)

    def _forget(self, task_id: str) -> None:
        if self._waker is not None:
            errand = self._loop.create_task(self._waker.forget(task_id))
            self._errands.add(errand)
            errand.add_done_callback(self._errands.discard)

    def _run(self) -> None:
        self._loop.run_until_complete(self._main())
        self._loop.close()

    async def _main(self) -> None:
        revoked = self._loop.create_task(self._read_revoked())
        while not self._stop.is_set():
            try:
                self._waker = Waker(self._app, self._settings)
                await self._waker.run(self._stop)
            except Exception:
                _logger.exception("the waker broke, and is started anew")
                await asyncio.sleep(_PAUSE_S)
        revoked.cancel()

    async def _read_revoked(self) -> None:
        while True:
            if len(worker_state.revoked) and self._waker is not None:
                with suppress(RuntimeError):  # the worker's main thread is changing it
                    now = set(worker_state.revoked.as_dict())
                    self._waker.hear_revoked(now - self._seen)
                    self._seen = now
            await asyncio.sleep(_REVOKED_S)


class WakingStep(bootsteps.StartStopStep):  # type: ignore[misc]  # celery has no types
    """Starts after the pool, so that its processes are forked while there is no thread yet."""

    requires: tuple[str, ...] = ("celery.worker.components:Pool",)
    door: Door
    task_names: frozenset[str]
    thread: WakingThread

    def create(self, worker: Any) -> WakingThread:
        """Called by Celery."""
        self.thread = WakingThread(worker.app, self.door.settings)
        return self.thread

    def start(self, worker: Any) -> None:
        """Called by Celery."""
        signals.task_revoked.connect(self._on_revoked, weak=False)
        super().start(worker)

    def stop(self, worker: Any) -> None:
        """Called by Celery."""
        signals.task_revoked.disconnect(self._on_revoked)
        super().stop(worker)

    def _on_revoked(self, sender: Any = None, request: Any = None, **_: Mapping[str, Any]) -> None:
        if request is not None and getattr(sender, "name", None) in self.task_names:
            self.thread.forget(request.id)


def waking_step(door: Door, task_name: str) -> type[WakingStep]:
    """The step for one application."""
    return type("BusloadWaking", (WakingStep,), {"door": door, "task_names": frozenset({task_name})})
