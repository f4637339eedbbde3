"""Every error Busload raises on purpose. The class names the situation; the docstring says who must act."""

from __future__ import annotations


class BusloadError(Exception):
    """Base of all errors of this project."""


class RequestInvalid(BusloadError):
    """The caller must change the request: it breaks the contract, and no retry will help."""


class QueueFull(BusloadError):
    """The caller must wait or shed load: the queue is at its limit and refuses newcomers.

    `depth` is the number of waiting requests; `expected_wait_s` the time the workers need for them, in
    seconds, or None while no worker has told its rate.
    """

    def __init__(self, queue: str, *, depth: int, limit: int, expected_wait_s: float | None) -> None:
        wait = "unknown (no worker is up)" if expected_wait_s is None else f"about {expected_wait_s:.1f} s"
        super().__init__(
            f"{queue}: {depth} requests wait and the limit is {limit}; expected wait {wait}. "
            "Retry later, send less, or add workers."
        )
        self.depth = depth
        self.limit = limit
        self.expected_wait_s = expected_wait_s


class DeadlineUnmeetable(BusloadError):
    """The caller must give more time, or do without: the queue cannot answer by the deadline, and did not take it.

    `left_s` is the time until the deadline, `needed_s` the least the workers need, in seconds.
    """

    def __init__(self, request_id: str, *, left_s: float, needed_s: float) -> None:
        super().__init__(
            f"{request_id}: not taken: its deadline is {left_s:.2f} s away, and by the workers' own figures an answer "
            f"takes {needed_s:.2f} s at least. Give it more time, raise its priority, or add workers."
        )
        self.left_s = left_s
        self.needed_s = needed_s


class ResultTimeout(BusloadError):
    """The result did not come in time. The request goes on: wait again, or cancel it."""


class ResultExpired(BusloadError):
    """The result was written and has passed its time to live. Submit again, or raise `result_ttl_s`."""


class RequestUnknown(BusloadError):
    """Nobody enqueued this id here, or its trace is gone. Check the id and the queue's name."""


class BusloadUnavailable(BusloadError):
    """Redis cannot be reached or cannot serve now. Operations must act; a retry later is safe."""


class NotReplicated(BusloadUnavailable):
    """The caller must submit again with the same id: the master has it, but a failover now would lose it."""

    @classmethod
    def lagging(cls, *, have: int, want: int, timeout_ms: int, cure: str) -> NotReplicated:
        """For a write that `have` of `want` replicas have."""
        return cls(
            f"accepted by the master, but only {have} of {want} replicas had it within {timeout_ms} ms: {cure}, and "
            "see to the replicas"
        )


class RedisUnfit(BusloadError):
    """Redis is up but not fit for a queue (version, eviction policy, keys of another layout). Operations must act."""


class SettingsInvalid(BusloadError):
    """A setting is wrong. The message names it and what to write instead."""


class EngineError(BusloadError):
    """Base of the engine's errors; the worker acts on them, a producer never sees one."""


class EngineStartFailed(EngineError):
    """The engine cannot start with these settings. Operations must act as the message says."""


class EngineDied(EngineError):
    """The engine's process ended or hung. The worker restarts it and runs the batch's rows again."""


class EngineAbsent(EngineDied):
    """The engine was gone before this batch reached it. The worker restarts it; the rows are not to blame."""


class BatchFailed(EngineError):
    """The engine lives, but this batch raised. The worker runs its rows again in halves."""


class OutOfMemory(BatchFailed):
    """The batch was too much for the engine's memory, and the engine lives. The worker runs the rows that are
    unanswered in halves at once; one that is too much alone is answered `too_heavy`."""
