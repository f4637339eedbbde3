"""The codes of Redis' errors, and which of them say that another server must be asked."""

from __future__ import annotations

import re

from redis.exceptions import AskError, ClusterDownError, ReadOnlyError, ResponseError

_ELSEWHERE_TYPES = (AskError, ClusterDownError, ReadOnlyError)
"""MOVED is an AskError, and MASTERDOWN a ClusterDownError. redis-py cuts the code off these texts."""

_ELSEWHERE_CODES = ("READONLY", "UNBLOCKED", "MASTERDOWN", "CLUSTERDOWN", "MOVED", "ASK", "NOREPLICAS")
"""A master without its replicas may be cut off, and another one chosen."""


def code_of(error: BaseException) -> str:
    """The error's code; Redis 6.2 puts that of a script's command behind the place: `…: @user_script: 1: -OOM …`."""
    if not isinstance(error, ResponseError):
        return ""
    text = str(error)
    inner = re.search(r"@user_script: ?\d+: -?([A-Z]+) ", text)
    return inner.group(1) if inner else text.split(" ", 1)[0].strip("-:")


def is_elsewhere(error: BaseException) -> bool:
    """Whether this server serves the queue no longer, or not now, so that the way should be asked again."""
    return isinstance(error, _ELSEWHERE_TYPES) or code_of(error) in _ELSEWHERE_CODES
