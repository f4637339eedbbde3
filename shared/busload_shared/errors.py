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


class ResultTimeout(BusloadError):
    """The result did not come in time. The request goes on: wait again, or cancel it."""


class ResultExpired(BusloadError):
    """The result was written and has passed its time to live. Submit again, or raise `result_ttl_s`."""


class RequestUnknown(BusloadError):
    """Nobody enqueued this id here, or its trace is gone. Check the id and the queue's name."""


class BusloadUnavailable(BusloadError):
    """Redis cannot be reached or cannot serve now. Operations must act; a retry later is safe."""


class RedisUnfit(BusloadError):
    """Redis is up but not fit for a queue (version, eviction policy). Operations must change it."""


class SettingsInvalid(BusloadError):
    """A setting is wrong. The message names it and what to write instead."""


class EngineError(BusloadError):
    """Base of the engine's errors; the worker acts on them, a producer never sees one."""


class EngineStartFailed(EngineError):
    """The engine cannot start with these settings. Operations must act as the message says."""


class EngineDied(EngineError):
    """The engine's process ended or hung. The worker restarts it and runs the batch's rows again."""


class BatchFailed(EngineError):
    """The engine lives, but this batch raised. The worker runs its rows again in halves."""
