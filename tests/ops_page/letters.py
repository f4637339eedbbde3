"""Dead letters for tests of the operations page."""

from __future__ import annotations

import json
import time
from typing import Any

from busload_shared.queue import Queue
from busload_shared.replies import DeadLetter

PROMPT = "what nobody else may read"


def letter(name: str, code: str = "poison", message: str = "the engine died 2 times while it ran alone") -> DeadLetter:
    """A letter whose request would be answered, were it redriven."""
    request: dict[str, Any] = {"id": name, "prompt": PROMPT, "max_tokens": 4}
    now_ms = time.time() * 1000
    return DeadLetter(
        id=name,
        code=code,
        message=message,
        at_ms=now_ms,
        enqueued_ms=now_ms - 5000,
        attempts=2,
        batch="b1",
        worker="row",
        payload=json.dumps(request),
    )


async def bury(queue: Queue, *letters: DeadLetter) -> None:
    """Put them there, the last one newest."""
    for one in letters:
        await queue.redis.lpush(queue.keys.dead, one.model_dump_json())
