"""The door's settings: from `add_to`, else from the Celery app's configuration, else from the environment."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from busload_shared.errors import SettingsInvalid
from busload_shared.keys import Keys
from busload_shared.partitions.homes import partition_names

PREFIX = "busload_"

Returns = Literal["text", "result"]


@dataclass(frozen=True, slots=True)
class DoorSettings:
    """Which queue, and how tasks wait for it. Raises SettingsInvalid."""

    redis_url: str = field(default="redis://127.0.0.1:6379/0", repr=False)
    queue: str = "busload:default"
    partitions: int = 1
    """Over how many lists the queue is spread; its workers must serve as many."""
    returns: Returns = "text"
    """What a task returns: the first sample's text, or the whole Result as a dict."""
    max_queue_length: int = 100_000
    result_ttl_s: float = 86_400
    patience_s: float = 5.0
    """How long a task holds its slot while Redis is away, before it is retried."""
    sweep_s: float = 5.0
    """How often a waker looks for tasks whose wake-up was lost."""
    look_s: float = 10.0
    """How long after it parked, and how often then, a task is looked at so."""
    claim_lease_s: float = 15.0
    """A waker that claimed a task and did not publish it by then is taken for dead."""
    landing_lease_s: float = 300.0
    """A woken task that did not begin by then is published once more: longer than tasks wait in Celery's own queue."""
    run_lease_s: float = 60.0
    """A woken task that began and did not end by then is taken for dead."""
    park_ttl_s: float = 604_800
    """How long a parked task is kept. A week is the most: so long the queue knows its request."""

    def __post_init__(self) -> None:
        for name in partition_names(self.queue, self.partitions):
            Keys(name)
        if self.returns not in get_args(Returns):
            raise SettingsInvalid(f"busload_returns={self.returns!r}: write text or result")
        for name in ("sweep_s", "look_s", "claim_lease_s", "landing_lease_s", "run_lease_s", "park_ttl_s"):
            if getattr(self, name) <= 0:
                raise SettingsInvalid(f"busload_{name}={getattr(self, name)}: give seconds, more than 0")


def settings_of(app: Any, given: dict[str, Any]) -> DoorSettings:
    """What `add_to` was given, then `busload_…` of the configuration, then BUSLOAD_REDIS_URL, BUSLOAD_QUEUE and
    BUSLOAD_PARTITIONS."""
    from_environment = {
        "redis_url": "BUSLOAD_REDIS_URL",
        "queue": "BUSLOAD_QUEUE",
        "partitions": "BUSLOAD_PARTITIONS",
    }
    known = {part.name for part in fields(DoorSettings)}
    if unknown := sorted(set(given) - known):
        raise SettingsInvalid(f"unknown setting {unknown[0]}: known are {', '.join(sorted(known))}")
    found: dict[str, Any] = {}
    for name in known:
        value = given.get(name)
        if value is None:
            value = app.conf.get(PREFIX + name)
        if value is None and name in from_environment:
            value = os.environ.get(from_environment[name])
        if value is not None:
            found[name] = _whole(value) if name == "partitions" else value
    return DoorSettings(**found)


def _whole(value: Any) -> int:
    try:
        return int(value)
    except ValueError:
        raise SettingsInvalid(f"busload_partitions={value!r}: write a whole number") from None
