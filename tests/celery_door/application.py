"""An ordinary Celery application that uses Busload, set by the environment. Its effects are kept in Redis."""

from __future__ import annotations

import os
from typing import Any

import redis
from celery import Celery
from celery.signals import after_task_publish

from busload.celery_app import RequestFailed, add_to

app = Celery("shop", broker=os.environ["TEST_BROKER"], backend=os.environ["TEST_BACKEND"], set_as_current=False)
app.conf.update(
    broker_transport_options={
        "visibility_timeout": float(os.environ.get("TEST_VISIBILITY_S", "3600")),
        "unacked_restore_interval": 0.5,
        "unacked_restore_throttle": 1,
        "unacked_mutex_expire": 2,
    },
    broker_connection_retry_on_startup=True,
    worker_prefetch_multiplier=4,
    task_send_sent_event=False,
)
generate = add_to(
    app,
    returns=os.environ.get("TEST_RETURNS", "text"),
    sweep_s=0.5,
    look_s=float(os.environ.get("TEST_LOOK_S", "1")),
    claim_lease_s=1.0,
    landing_lease_s=float(os.environ.get("TEST_LANDING_LEASE_S", "60")),
    run_lease_s=2.0,
    max_queue_length=int(os.environ.get("TEST_MAX_QUEUE", "100000")),
    task_options={
        "autoretry_for": (RequestFailed,) if os.environ.get("TEST_AUTORETRY") else (),
        "retry_backoff": False,
        "default_retry_delay": 0,
        "max_retries": 2 if os.environ.get("TEST_AUTORETRY") else 10,
    },
)


@after_task_publish.connect
def note(sender: str, headers: dict[str, Any], body: Any, **_: Any) -> None:
    """What was called back: Celery's Redis broker itself may lose a message whose worker is killed as it takes it."""
    if sender == effect.name:
        with redis.Redis.from_url(os.environ["TEST_BACKEND"]) as store:
            store.hset("published", headers["id"], body[0][0] if isinstance(body[0][0], str) else "")


@app.task
def exclaim(text: str) -> str:
    return text + "!"


@app.task
def joined(texts: list[str]) -> str:
    return " + ".join(texts)


@app.task(bind=True, acks_late=True, reject_on_worker_lost=True)
def effect(self: Any, value: Any, name: str) -> None:
    """Kept under the callback's own id, so that what counts is how often it was called for, not how often it ran."""
    with redis.Redis.from_url(os.environ["TEST_BACKEND"]) as store:
        store.hset(name, self.request.id, value if isinstance(value, str) else value["id"])


@app.task
def failed(request: Any, error: Any, _: Any, name: str) -> None:
    with redis.Redis.from_url(os.environ["TEST_BACKEND"]) as store:
        store.hset(name, request.id, type(error).__name__)
