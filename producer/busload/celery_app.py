"""Busload for Celery applications: a task whose request waits in Busload while no worker slot is held.

>>> from busload.celery_app import add_to
>>> generate = add_to(app, redis_url="redis://…", queue="busload:default")
>>> generate.delay("The capital of France is", max_tokens=8).get()

An application that has `busload_redis_url` in its configuration and imports this module gets the task
`busload.generate` by itself. `celery -A busload.celery_app worker` is a whole worker, set by the environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

try:
    from celery import Celery, current_app
    from celery._state import connect_on_app_finalize
    from celery.local import Proxy
except ModuleNotFoundError as _missing:
    raise ModuleNotFoundError(
        'busload.celery_app needs Celery. Run: pip install "busload[celery]"', name=_missing.name
    ) from None

from busload_shared.errors import SettingsInvalid
from busload_shared.request import Request

from .celery_door import callbacks, housekeeping
from .celery_door._generating import WAITING, Generating
from .celery_door._waking_step import waking_step
from .celery_door.door import Door
from .celery_door.failures import (
    RequestCancelled,
    RequestExpired,
    RequestFailed,
    TaskDeadlineUnmeetable,
    TaskQueueFull,
)
from .celery_door.schedule import beat_schedule
from .client import Client
from .sending import Submission

__all__ = [
    "TASK_NAME",
    "WAITING",
    "RequestCancelled",
    "RequestExpired",
    "RequestFailed",
    "TaskDeadlineUnmeetable",
    "TaskQueueFull",
    "add_to",
    "app",
    "beat_schedule",
    "call_back",
    "generate",
    "submit_with_callback",
]

TASK_NAME = "busload.generate"


def add_to(app: Any, *, name: str = TASK_NAME, task_options: Mapping[str, Any] | None = None, **settings: Any) -> Any:
    """Add the task to a Celery application, with the waker in its workers and the housekeeping tasks. Returns the task.

    `settings` are the fields of `DoorSettings`: `redis_url`, `queue`, `returns` and so on; what is not given comes from
    the application's configuration as `busload_…`, then from the environment. `task_options` are Celery's for a task,
    such as `queue`, `max_retries`, `autoretry_for`, `time_limit`. Call it once for an application.
    """
    if getattr(app, "busload_door", None) is not None:
        raise SettingsInvalid("add_to was called for this Celery application before: call it once")
    door = app.busload_door = Door(app, settings)

    @app.task(bind=True, shared=False, base=Generating, name=name, door=door, **(task_options or {}))  # type: ignore[untyped-decorator]
    def generate(self: Any, prompt: Any = None, **fields: Any) -> Any:
        return self.ride(prompt, fields)

    app.steps["worker"].add(waking_step(door, name))
    housekeeping.add_to(app, door)
    return generate


def call_back(request_id: str, on_result: Any, *, app: Any = None) -> None:
    """Have a Celery task called with the Result, as a dict, of any request of this queue, also one by LPUSH.

    `on_result` is a signature; the Result comes before its own arguments. Called at least once, under the
    same task id each time. One callback for an id: a second takes the first one's place. `app` is by default
    the current application.
    """
    app = current_app if app is None else app
    callbacks.call_back(_door_of(app), app, request_id, on_result)


def submit_with_callback(
    client: Client, request: Request | Mapping[str, Any], *, on_result: Any, app: Any = None
) -> Submission:
    """Submit a request through the plain client, and have a Celery task called with its Result. See `call_back`."""
    app = current_app if app is None else app
    return callbacks.submit_with_callback(_door_of(app), app, client, request, on_result)


def _door_of(app: Any) -> Door:
    door = getattr(app, "busload_door", None)
    if door is None:
        raise SettingsInvalid("this Celery application has no Busload task: call busload.celery_app.add_to(app) first")
    assert isinstance(door, Door)
    return door


def _add_where_configured(app: Any) -> None:
    if getattr(app, "busload_door", None) is None and app.conf.get("busload_redis_url"):
        add_to(app)


def _defaults() -> dict[str, Any]:
    """Of our own application: Celery's variables, else Busload's Redis for everything."""
    broker = os.environ.get("CELERY_BROKER_URL") or os.environ.get("BUSLOAD_REDIS_URL") or "redis://127.0.0.1:6379/0"
    return {
        "broker_url": broker,
        "result_backend": os.environ.get("CELERY_RESULT_BACKEND") or broker,
        "beat_schedule": beat_schedule(),
    }


connect_on_app_finalize(_add_where_configured)

app: Any = Celery("busload", set_as_current=False)
app.add_defaults(_defaults)
add_to(app)

generate: Any = Proxy(lambda: current_app.tasks[TASK_NAME])
"""The task of the current application."""
