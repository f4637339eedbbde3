"""Whether a request can be answered by its deadline, as far as the workers' own figures tell."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from busload_shared.errors import BusloadUnavailable, DeadlineUnmeetable
from busload_shared.queue import Queue
from busload_shared.replies import QueueInfo
from busload_shared.terms import STEP_S, Terms

from .encoding import Outgoing

FRESH_S = 0.5
"""So long one look at the queue serves all requests with a deadline."""

BYTES_PER_TOKEN = 4
"""Of English; the worker alone has the tokenizer."""


class Forecast:
    """Looks at the queue's state now and then, only while requests with deadlines are sent."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._info: QueueInfo | None = None
        self._seen_at = 0.0

    async def unmeetable(self, outgoing: Iterable[Outgoing]) -> Mapping[int, DeadlineUnmeetable]:
        """The requests, by position, whose deadline cannot be met. Never a guess: without figures none is."""
        with_deadline = {
            position: one
            for position, one in enumerate(outgoing)
            if one.terms is not None and (one.terms.deadline_ms or one.terms.ttl_ms)
        }
        if not with_deadline or (info := await self._look()) is None:
            return {}
        now_ms = info.now_ms + (time.monotonic() - self._seen_at) * 1000
        judged = {position: _judge(one, info, now_ms) for position, one in with_deadline.items()}
        return {position: error for position, error in judged.items() if error is not None}

    async def _look(self) -> QueueInfo | None:
        if self._info is None or time.monotonic() - self._seen_at > FRESH_S:
            try:
                self._info = await self._queue.info()
            except BusloadUnavailable:
                return None  # the submit that follows tells it
            self._seen_at = time.monotonic()
        return self._info


def _judge(one: Outgoing, info: QueueInfo, now_ms: float) -> DeadlineUnmeetable | None:
    assert one.terms is not None
    left_ms = one.terms.left_ms(now_ms)
    wait_ms = boarding_wait_ms(info, one.terms)
    if left_ms is None or wait_ms is None:
        return None
    needed_ms = wait_ms + shortest_run_ms(info, prompt_tokens=len(one.payload) // BYTES_PER_TOKEN)
    if needed_ms <= left_ms:
        return None
    return DeadlineUnmeetable(one.id, left_s=left_ms / 1000, needed_s=needed_ms / 1000)


def boarding_wait_ms(info: QueueInfo, terms: Terms) -> float | None:
    """Until a request that comes now boards; None while no worker has told its rate. One with a priority passes
    those who have waited for less than its points are worth."""
    if info.expected_wait_s is None:
        return None
    return max(0.0, info.expected_wait_s - max(0, terms.priority) * STEP_S) * 1000


def shortest_run_ms(info: QueueInfo, *, prompt_tokens: int) -> float:
    """A batch of this request alone that ends at its first token, on the fastest worker that has learned its curve."""
    curves = [worker.curve for worker in info.workers if worker.curve is not None and worker.state == "ready"]
    return min((c.predict_ms(prompt_tokens=prompt_tokens, longest=1, new_tokens=1) for c in curves), default=0.0)
