"""The client for ordinary, synchronous code."""

from __future__ import annotations

import weakref
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self, TypeVar

from busload_shared.replies import CancelState, QueueInfo, RequestStatus
from busload_shared.request import Request
from busload_shared.result import Result

from .async_client import AsyncClient
from .background import background, close_soon
from .bulk.flight import IN_FLIGHT
from .bulk.outcome import Outcome
from .bulk.running import run_sync
from .sending import Submission

if TYPE_CHECKING:
    from pandas import DataFrame

T = TypeVar("T")


class Client:
    """AsyncClient for synchronous code: the same methods, the same promises, the same errors.

    All clients of a process share one background thread. Each may be used from any number of threads, and works
    in a forked child too, with connections of its own. Ctrl-C in a waiting call returns at once and leaves the
    request as it is.
    """

    def __init__(  # noqa: PLR0913 - all by name but the first
        self,
        redis_url: str = "redis://127.0.0.1:6379/0",
        *,
        queue: str = "busload:default",
        max_queue_length: int = 100_000,
        result_ttl_s: float = 86_400,
        patience_s: float = 5.0,
        wait_replicas: int = 0,
        wait_timeout_ms: int = 1000,
        partitions: int = 1,
    ) -> None:
        self._client = AsyncClient(
            redis_url,
            queue=queue,
            max_queue_length=max_queue_length,
            result_ttl_s=result_ttl_s,
            patience_s=patience_s,
            wait_replicas=wait_replicas,
            wait_timeout_ms=wait_timeout_ms,
            partitions=partitions,
        )
        weakref.finalize(self, close_soon, self._client).atexit = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """See `AsyncClient.close`."""
        self._run(self._client.close())

    def submit(self, request: Request | Mapping[str, Any] | None = None, /, **fields: Any) -> Submission:
        """See `AsyncClient.submit`."""
        return self._run(self._client.submit(request, **fields))

    def submit_many(
        self, requests: Iterable[Request | Mapping[str, Any]], *, raise_when_full: bool = True
    ) -> list[Submission]:
        """See `AsyncClient.submit_many`. The iterable is read to its end first, in the calling thread."""
        return self._run(self._client.submit_many(list(requests), raise_when_full=raise_when_full))

    def result(self, request_id: str, timeout_s: float | None = None) -> Result:
        """See `AsyncClient.result`."""
        return self._run(self._client.result(request_id, timeout_s))

    def generate(
        self,
        request: Request | Mapping[str, Any] | None = None,
        /,
        *,
        timeout_s: float | None = None,
        **fields: Any,
    ) -> Result:
        """See `AsyncClient.generate`."""
        return self._run(self._client.generate(request, timeout_s=timeout_s, **fields))

    def results(self, request_ids: Iterable[str]) -> list[Result | None]:
        """See `AsyncClient.results`."""
        return self._run(self._client.results(list(request_ids)))

    def as_completed(self, request_ids: Iterable[str], timeout_s: float | None = None) -> Iterator[Result]:
        """See `AsyncClient.as_completed`."""
        results = self._client.as_completed(list(request_ids), timeout_s)
        try:
            while (result := self._run(_next(results))) is not None:
                yield result
        finally:
            with suppress(RuntimeError):  # after Ctrl-C it is still ending by itself
                self._run(results.aclose())

    def run(self, requests: Iterable[Request | Mapping[str, Any]], *, in_flight: int = IN_FLIGHT) -> Iterator[Outcome]:
        """See `AsyncClient.run`. The iterable is read in the calling thread, as there is room; while it makes its
        caller wait no outcome is handed out."""
        yield from run_sync(self._run, self._client._start_running(in_flight), requests)

    def results_frame(self, request_ids: Iterable[str]) -> DataFrame:
        """See `AsyncClient.results_frame`."""
        return self._run(self._client.results_frame(list(request_ids)))

    def status(self, request_id: str) -> RequestStatus:
        """See `AsyncClient.status`."""
        return self._run(self._client.status(request_id))

    def statuses(self, request_ids: Iterable[str]) -> list[RequestStatus]:
        """See `AsyncClient.statuses`."""
        return self._run(self._client.statuses(list(request_ids)))

    def cancel(self, request_id: str) -> CancelState:
        """See `AsyncClient.cancel`."""
        return self._run(self._client.cancel(request_id))

    def queue_info(self) -> QueueInfo:
        """See `AsyncClient.queue_info`."""
        return self._run(self._client.queue_info())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        loop = background()
        loop.adopt(self._client)
        return loop.run(work)


async def _next(results: Any) -> Result | None:
    return await anext(results, None)
