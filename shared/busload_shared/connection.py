"""How Busload connects to Redis, and which of its errors pass by themselves."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AskError,
    AuthenticationError,
    ClusterDownError,
    ConnectionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    TimeoutError,
    TryAgainError,
)

from .error_codes import code_of
from .errors import BusloadUnavailable, SettingsInvalid
from .packing import adapt_connections
from .refusals import refusal
from .routes import FOLLOWED, following

T = TypeVar("T")

READ_TIMEOUT_S = 5.0
LONGEST_BLOCK_S = 1.0
"""A blocking command asks for less than the read timeout, or its reply would be lost to the timeout."""

_TRANSIENT_TYPES = (
    ConnectionError, TimeoutError, OSError, ClusterDownError, NoScriptError, OutOfMemoryError, ReadOnlyError,
    TryAgainError, AskError,
)  # fmt: skip
"""LOADING is a ConnectionError, MASTERDOWN a ClusterDownError, MOVED an AskError. redis-py cuts the code off them."""

_TRANSIENT_CODES = ("UNBLOCKED", "BUSY", "MISCONF", "NOREPLICAS", "OOM", "READONLY", "MASTERDOWN")
"""Codes that begin the text: those redis-py has no class for, and those a script passes on."""

_SAID: dict[type[RedisError], str] = {
    AuthenticationError: "Redis refuses the user or password: set them in the redis URL",
    NoScriptError: "Redis does not hold this version's scripts, and this user may not load them: start a worker of the "
    "same version, or let an operator run its `busload migrate`, which loads them",
    AskError: "this Redis is a cluster and the queue's slot is on another node or on its way there: wait until it has "
    "moved, and see that the URL begins with redis+cluster://",
}
"""What is said of errors that tell nothing by their text."""


def open_redis(url: str, *, queue: str = "", max_connections: int | None = None) -> Redis:
    """A client that never repeats a command by itself: redis-py's silent retries would run a lost claim twice.

    In a cluster it speaks to the node that owns the slot of `queue`. Raises SettingsInvalid for a URL that is none.
    """
    options: dict[str, Any] = {
        "retry": Retry(NoBackoff(), 0),
        "retry_on_error": [],
        "socket_timeout": READ_TIMEOUT_S,
        "socket_connect_timeout": READ_TIMEOUT_S,
        "health_check_interval": 0,
        "decode_responses": False,
        "protocol": 2,
    }
    if not url.startswith("unix:"):  # redis-py has no keepalive for a unix socket, and refuses the argument
        options["socket_keepalive"] = True
    try:
        if FOLLOWED.match(url):
            redis = following(url, queue=queue, max_connections=max_connections, **options)
        else:
            redis = Redis.from_url(url, max_connections=max_connections, **options)
    except ValueError:  # neither its text nor the URL is shown: one that is broken hides its password anywhere
        raise SettingsInvalid(
            "redis_url is not a Redis URL: write redis://USER:PASSWORD@HOST:PORT/DB, rediss://, unix://, "
            "redis+sentinel://HOST:PORT,HOST:PORT/MASTER/DB or redis+cluster://HOST:PORT,HOST:PORT, with special "
            "characters of the password as %XX"
        ) from None
    return adapt_connections(redis)


def without_secrets(url: str) -> str:
    """The URL as it may be logged: no user, no password, no query, even of a URL that is broken."""
    scheme, colon, rest = url.partition("://")
    before, at, host = (rest if colon else url).rpartition("@")
    if at and "?" in before:  # the @ may be of a password in the query, or a ? of one before the host
        host = "…"
    return f"{scheme if colon else ''}{colon}{re.split('[?#]', host)[0]}"


def is_transient(error: BaseException) -> bool:
    """Whether waiting may help: the server is away, loading, failing over, busy, or full for the moment."""
    if isinstance(error, AuthenticationError) or refusal(error) is not None:
        return False
    return isinstance(error, _TRANSIENT_TYPES) or code_of(error) in _TRANSIENT_CODES


def _is_oom(error: BaseException) -> bool:
    return isinstance(error, OutOfMemoryError) or code_of(error) == "OOM"


async def persist(call: Callable[[], Awaitable[T]], *, patience_s: float) -> T:
    """Repeat `call` with jitter while Redis is away, for `patience_s` seconds at most; with any patience at all once,
    for the first failure may be a read timeout that is longer, on a connection gone mute.

    Only for what may be repeated: every script is idempotent or carries a token.
    Raises BusloadUnavailable when patience runs out, or at once when waiting cannot help.
    """
    give_up = time.monotonic() + patience_s
    pause, first = 0.02, patience_s > 0
    while True:
        try:
            return await call()
        except (RedisError, OSError) as error:
            late = time.monotonic() + pause > give_up
            if not is_transient(error) or (late and not first):
                raise unavailable(error) from error
        first = False
        await asyncio.sleep(pause * random.uniform(0.5, 1.0))
        pause = min(2 * pause, 1.0)


def unavailable(error: BaseException) -> BusloadUnavailable:
    """Say what is wrong with Redis and what to do, without repeating keys, values or secrets."""
    text = re.split(r"\n|,? with args beginning", str(error))[0][:200]
    for kind, said in _SAID.items():
        if isinstance(error, kind):
            return BusloadUnavailable(said)
    if (refused := refusal(error)) is not None:
        return BusloadUnavailable(refused)
    if _is_oom(error):
        return BusloadUnavailable("Redis is at maxmemory: let workers drain the queue, or raise maxmemory")
    if is_transient(error):
        return BusloadUnavailable(f"Redis does not answer ({text}): see that it runs and can be reached")
    return BusloadUnavailable(f"Redis refused a command: {text}")
