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
    AuthenticationError,
    ClusterDownError,
    ConnectionError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TimeoutError,
    TryAgainError,
)

from .errors import BusloadUnavailable, SettingsInvalid
from .packing import pack_with_hiredis

T = TypeVar("T")

READ_TIMEOUT_S = 5.0
LONGEST_BLOCK_S = 1.0
"""A blocking command asks for less than the read timeout, or its reply would be lost to the timeout."""

_TRANSIENT_TYPES = (
    ConnectionError, TimeoutError, OSError, ClusterDownError, NoScriptError, OutOfMemoryError, ReadOnlyError,
    TryAgainError,
)  # fmt: skip
"""LOADING is a ConnectionError and MASTERDOWN a ClusterDownError. redis-py cuts the code off these texts."""

_TRANSIENT_CODES = ("UNBLOCKED", "BUSY", "MISCONF", "NOREPLICAS", "OOM", "READONLY", "MASTERDOWN")
"""Codes that begin the text: those redis-py has no class for, and those a script passes on."""


def open_redis(url: str, *, max_connections: int | None = None) -> Redis:
    """A client that never repeats a command by itself: redis-py's silent retries would run a lost claim twice.

    Raises SettingsInvalid for a URL that is none.
    """
    # redis-py has no keepalive for a unix socket, and refuses the argument
    keepalive: dict[str, Any] = {} if url.startswith("unix:") else {"socket_keepalive": True}
    try:
        redis = Redis.from_url(
            url,
            retry=Retry(NoBackoff(), 0),
            retry_on_error=[],
            socket_timeout=READ_TIMEOUT_S,
            socket_connect_timeout=READ_TIMEOUT_S,
            health_check_interval=0,
            max_connections=max_connections,
            decode_responses=False,
            protocol=2,
            **keepalive,
        )
    except ValueError:  # neither its text nor the URL is shown: one that is broken hides its password anywhere
        raise SettingsInvalid(
            "redis_url is not a Redis URL: write redis://USER:PASSWORD@HOST:PORT/DB, rediss:// or unix://, with "
            "special characters of the password as %XX"
        ) from None
    return pack_with_hiredis(redis)


def without_secrets(url: str) -> str:
    """The URL as it may be logged: no user, no password, no query, even of a URL that is broken."""
    scheme, colon, rest = url.partition("://")
    host = (rest if colon else url).rpartition("@")[2]
    return f"{scheme if colon else ''}{colon}{re.split('[?#]', host)[0]}"


def is_transient(error: BaseException) -> bool:
    """Whether waiting may help: the server is away, loading, failing over, busy, or full for the moment."""
    if isinstance(error, AuthenticationError | NoPermissionError):
        return False
    return isinstance(error, _TRANSIENT_TYPES) or _code(error) in _TRANSIENT_CODES


def _code(error: BaseException) -> str:
    """The error's code; Redis 6.2 puts that of a script's command behind the place: `…: @user_script: 1: -OOM …`."""
    if not isinstance(error, ResponseError):
        return ""
    text = str(error)
    inner = re.search(r"@user_script: ?\d+: -?([A-Z]+) ", text)
    return inner.group(1) if inner else text.split(" ", 1)[0].strip("-:")


def _is_oom(error: BaseException) -> bool:
    return isinstance(error, OutOfMemoryError) or _code(error) == "OOM"


async def persist(call: Callable[[], Awaitable[T]], *, patience_s: float) -> T:
    """Repeat `call` with jitter while Redis is away, for `patience_s` seconds at most.

    Only for what may be repeated: every script is idempotent or carries a token.
    Raises BusloadUnavailable when patience runs out, or at once when waiting cannot help.
    """
    give_up = time.monotonic() + patience_s
    pause = 0.02
    while True:
        try:
            return await call()
        except (RedisError, OSError) as error:
            if not is_transient(error) or time.monotonic() + pause > give_up:
                raise unavailable(error) from error
        await asyncio.sleep(pause * random.uniform(0.5, 1.0))
        pause = min(2 * pause, 1.0)


def unavailable(error: BaseException) -> BusloadUnavailable:
    """Say what is wrong with Redis and what to do, without repeating keys, values or secrets."""
    text = re.split(r"\n|,? with args beginning", str(error))[0][:200]
    if isinstance(error, AuthenticationError):
        return BusloadUnavailable("Redis refuses the user or password: set them in the redis URL")
    if isinstance(error, NoPermissionError):
        return BusloadUnavailable(f"this Redis user may not do that: widen its ACL ({text})")
    if _is_oom(error):
        return BusloadUnavailable("Redis is at maxmemory: let workers drain the queue, or raise maxmemory")
    if is_transient(error):
        return BusloadUnavailable(f"Redis does not answer ({text}): see that it runs and can be reached")
    return BusloadUnavailable(f"Redis refused a command: {text}")
