"""The event loop behind all synchronous clients of a process: one daemon thread, made when first needed."""

from __future__ import annotations

import asyncio
import atexit
import os
import selectors
import threading
import weakref
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from .async_client import AsyncClient

T = TypeVar("T")

_STOP_S = 2.0


class Background:
    """A running event loop in a thread of its own, and the clients that live in it."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._loop = asyncio.SelectorEventLoop(self._selector)
        self._clients: weakref.WeakSet[AsyncClient] = weakref.WeakSet()
        self._thread = threading.Thread(target=self._run, name="busload", daemon=True)
        self._thread.start()

    def adopt(self, client: AsyncClient) -> None:
        """Close this client when the process ends."""
        self._clients.add(client)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do `work` in the loop and wait for it. An interrupt returns at once and cancels the work."""
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("Client would wait for itself here, in its own event loop; use AsyncClient")
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        finally:
            future.cancel()

    def close_soon(self, client: AsyncClient) -> None:
        """Close a client nobody holds any more, without waiting for it."""
        work = client.close()
        try:
            asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:  # the loop has ended, and closed it
            work.close()

    def stop(self) -> None:
        """Close all clients and end the thread, within about two seconds."""
        with suppress(TimeoutError, RuntimeError):
            asyncio.run_coroutine_threadsafe(self._close_all(), self._loop).result(_STOP_S)
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STOP_S)

    def abandon(self) -> None:
        """After a fork: the thread does not exist here, and the kernel's selector is shared with the parent."""
        self._selector.close()

    async def _close_all(self) -> None:
        await asyncio.gather(*(client.close() for client in self._clients), return_exceptions=True)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()


_lock = threading.Lock()
_current: Background | None = None
_abandoned: list[Background] = []


def background() -> Background:
    """This process's background loop. A forked child gets one of its own."""
    global _current
    with _lock:
        if _current is None:
            _current = Background()
        return _current


def close_soon(client: AsyncClient) -> None:
    """Close a client nobody holds any more. Called by the garbage collector: takes no lock and waits for nothing."""
    if client.is_open and _current is not None:
        _current.close_soon(client)


def _forget_parent() -> None:
    global _current, _lock
    _lock = threading.Lock()  # another thread of the parent may have held it
    if _current is not None:
        _current.abandon()
        _abandoned.append(_current)  # kept: its end would close sockets the parent uses
        _current = None


def _stop() -> None:
    if _current is not None:
        _current.stop()


os.register_at_fork(after_in_child=_forget_parent)
atexit.register(_stop)
