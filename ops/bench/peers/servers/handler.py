"""The work that every peer does: a list of prompts in, a list of texts out, at a cost set by the environment.

Only the standard library: it runs in each peer's own virtual environment. It counts its calls and its items in a
small file in memory that the client reads, and leaves the number of the process that runs it there.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from collections.abc import Sequence
from pathlib import Path

COUNTS = struct.Struct("<qqq")
"""Calls, items, process."""
BAD = "BAD"
"""A prompt that begins so makes the whole call raise, as one bad row does in code that treats rows as one tensor."""
SHOWN = 64
"""Characters of the prompt in the answer."""


class Handler:
    """PEERS_BASE_MS + PEERS_ITEM_MS for each item, asleep in the process that calls it."""

    def __init__(self) -> None:
        self._base_s = float(os.environ["PEERS_BASE_MS"]) / 1000
        self._item_s = float(os.environ["PEERS_ITEM_MS"]) / 1000
        with Path(os.environ["PEERS_COUNTS"]).open("r+b") as file:
            self._counts = mmap.mmap(file.fileno(), COUNTS.size)

    def __call__(self, prompts: Sequence[str]) -> list[str]:
        calls, items, _ = COUNTS.unpack_from(self._counts)
        COUNTS.pack_into(self._counts, 0, calls + 1, items + len(prompts), os.getpid())
        cost_s = self._base_s + self._item_s * len(prompts)
        if cost_s:
            time.sleep(cost_s)
        if any(prompt.startswith(BAD) for prompt in prompts):
            raise ValueError("one item of this batch is bad")
        return [prompt[:SHOWN] for prompt in prompts]


def batch_size() -> int:
    """Most items in a batch."""
    return int(os.environ["PEERS_BATCH"])


def window_ms() -> int:
    """How long the first of a batch waits for others."""
    return int(os.environ["PEERS_WINDOW_MS"])
