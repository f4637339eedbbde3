"""BentoML: one service process; it learns how long to wait, so it has no window to set, only a bound on latency.

It refuses batches of 1, so there it takes one request at a time without batching.
"""

from __future__ import annotations

import bentoml
from handler import Handler, batch_size


@bentoml.service(
    workers=1,
    traffic={"timeout": 120, "max_concurrency": 100_000},
    metrics={"enabled": False},
    logging={"access": {"enabled": False}},
)
class Peer:
    def __init__(self) -> None:
        self._handle = Handler()

    @bentoml.api(batchable=batch_size() > 1, max_batch_size=max(2, batch_size()), max_latency_ms=60_000)
    def generate(self, prompts: list[str]) -> list[str]:
        return self._handle(prompts)
