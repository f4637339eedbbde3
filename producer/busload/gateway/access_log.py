"""One line of JSON for each call, without prompts and keys."""

from __future__ import annotations

import logging
import sys
import time
from dataclasses import dataclass, field
from typing import Any, Final

from busload_shared.json_lines import JsonLines

log: Final = logging.getLogger("busload.gateway.access")

CALLER_GONE: Final = "caller_gone"
"""The code of a call whose caller left before its answer was whole."""


@dataclass(slots=True)
class Notes:
    """What the line tells of a call; its handlers fill it in. A `routine` call, of which there is one a second for each
    browser that shows the operations page, is told only when it went wrong."""

    method: str
    path: str
    status: int = 0
    key: str | None = None
    request_id: str | None = None
    code: str | None = None
    tokens: int | None = None
    routine: bool = False
    began: float = field(default_factory=time.monotonic)

    def write(self) -> None:
        """Write the line, if anybody wants it."""
        if log.isEnabledFor(logging.INFO) and not (self.routine and self.status < 400):
            log.info("call", extra={"fields": self._fields()})

    def _fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "method": self.method,
            "path": self.path[:256],
            "status": self.status,
            "ms": round((time.monotonic() - self.began) * 1000, 1),
        }
        for name in ("key", "request_id", "code", "tokens"):
            if (value := getattr(self, name)) is not None:
                fields[name] = value
        return fields


def configure_logs(level: str) -> None:
    """Send the gateway's and uvicorn's logs to stderr, a JSON object a line. Called once, by `__main__`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name, least in (("busload", level), ("uvicorn", level if level != "INFO" else "WARNING")):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(least)
        logger.propagate = False
