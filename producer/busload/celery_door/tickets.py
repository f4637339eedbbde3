"""Names: a task's request has an id that follows from the task's, so a message that comes twice is one request."""

from __future__ import annotations

import re
from hashlib import sha256
from uuid import UUID, uuid5

from busload_shared.parking import Ticket
from busload_shared.request import MAX_ID_CHARACTERS

_OF_TASKS = "celery:"
_CALLBACKS = UUID("c0ffee00-6275-4c6f-a164-63656c657279")


def task_ticket(task_id: str) -> str:
    """The ticket of a task. An id that cannot be part of a request's id stands there as its hash."""
    fit = len(task_id) <= MAX_ID_CHARACTERS - 32 and re.fullmatch(r"[\x21-\x7e]+", task_id)
    return _OF_TASKS + (task_id if fit else sha256(task_id.encode()).hexdigest())


def task_request(task_id: str, retries: int) -> Ticket:
    """The ticket with the request of this try: a retry is a request of its own."""
    name = task_ticket(task_id)
    return Ticket(name, f"{name}:{retries}")


def ticket_of(request_id: str) -> Ticket:
    """The ticket that a request's result may wake: its task's, or one that bears the request's own id."""
    of_task = re.fullmatch(rf"({_OF_TASKS}.+):\d+", request_id)
    return Ticket(of_task.group(1) if of_task else request_id, request_id)


def callback_id(request_id: str) -> str:
    """The id of the task that is told of this request's result: the same however often it is published."""
    return str(uuid5(_CALLBACKS, request_id))
