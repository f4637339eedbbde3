"""How every process of ours writes its log for machines."""

from __future__ import annotations

import json
import logging
from typing import Any


class JsonLines(logging.Formatter):
    """One JSON object a line: time (Unix s), level, logger, message, the fields, and an error where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": round(record.created, 3),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)
