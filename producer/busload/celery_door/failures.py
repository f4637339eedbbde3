"""What a task raises when its request has no answer. All can be pickled and kept as JSON, as Celery does with them."""

from __future__ import annotations

from typing import NoReturn

from busload_shared.errors import BusloadError, DeadlineUnmeetable, QueueFull
from busload_shared.result import Result


class RequestFailed(BusloadError):
    """The request was answered with an error. `code` is for programs: see the protocol's table of codes.

    The caller must change the request for `invalid_request`, `prompt_too_long` and `too_heavy`; a retry may help with
    `engine_error`.
    """

    def __init__(self, message: str, code: str = "", request_id: str = "") -> None:
        super().__init__(message, code, request_id)
        self.message = message
        self.code = code
        self.request_id = request_id

    def __str__(self) -> str:
        return f"{self.request_id}: {self.code}: {self.message}"


class RequestCancelled(RequestFailed):
    """Somebody cancelled the request in the queue; it was not the task that was revoked."""


class RequestExpired(RequestFailed):
    """The request's own `ttl_s` or `deadline` passed. Give it more time, or add workers."""


class TaskQueueFull(QueueFull):
    """The queue was full at each of the task's tries. Retry later, send less, or add workers."""

    def __init__(self, message: str, depth: int = 0, limit: int = 0, expected_wait_s: float | None = None) -> None:
        BusloadError.__init__(self, message, depth, limit, expected_wait_s)
        self.depth = depth
        self.limit = limit
        self.expected_wait_s = expected_wait_s

    def __str__(self) -> str:
        return str(self.args[0])


class TaskDeadlineUnmeetable(DeadlineUnmeetable):
    """The queue cannot answer by the deadline, and did not take the request. Give it more time, or add workers."""

    def __init__(self, message: str, left_s: float = 0.0, needed_s: float = 0.0) -> None:
        BusloadError.__init__(self, message, left_s, needed_s)
        self.left_s = left_s
        self.needed_s = needed_s

    def __str__(self) -> str:
        return str(self.args[0])


def portable(error: BusloadError) -> BusloadError:
    """The same error in a form that Celery can carry to the caller."""
    if isinstance(error, QueueFull):
        return TaskQueueFull(str(error), error.depth, error.limit, error.expected_wait_s)
    if isinstance(error, DeadlineUnmeetable):
        return TaskDeadlineUnmeetable(str(error), error.left_s, error.needed_s)
    return error


_KINDS: dict[str, type[RequestFailed]] = {"cancelled": RequestCancelled, "expired": RequestExpired}


def raise_failure(result: Result) -> NoReturn:
    """Raise what this result without an answer means."""
    code = result.error.code if result.error else result.status
    message = result.error.message if result.error else f"the request is {result.status}"
    raise _KINDS.get(result.status, RequestFailed)(message, code, result.id)
