"""Logging: one line per batch, as JSON for machines or as text for people. No prompt text above DEBUG."""

from __future__ import annotations

import logging
import sys
import time
from typing import Any, Literal

from busload_shared.json_lines import JsonLines


def fields(**named: Any) -> dict[str, Any]:
    """Structured fields for one log line: `log.info("batch done", extra=fields(id=…, size=…))`."""
    return {"fields": named}


class Console(logging.Formatter):
    """One line for people: `12:00:01 INFO batch done id=… size=…`."""

    def format(self, record: logging.LogRecord) -> str:
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        named = "".join(f" {name}={value}" for name, value in getattr(record, "fields", {}).items())
        line = f"{clock} {record.levelname:<7} {record.getMessage()}{named}"
        return line + ("\n" + self.formatException(record.exc_info) if record.exc_info else "")


def configure_logs(style: Literal["auto", "console", "json"], level: str) -> None:
    """Send all logs of the project to stderr in one style. Called once, by `__main__`."""
    if style == "auto":
        style = "console" if sys.stderr.isatty() else "json"
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Console() if style == "console" else JsonLines())
    root = logging.getLogger("busload")
    root.handlers[:] = [handler]
    root.setLevel(level)
    root.propagate = False
