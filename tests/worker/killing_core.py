"""An engine on a bad machine, for test_bad_machine.py: its process imports it by name."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from typing import Self

from busload_worker.engines.fake_core import FakeCore
from busload_worker.engines.fake_model import FakeCurve
from busload_worker.engines.protocol import BatchDone, BatchStarted, EngineRow, RowDone, RowRefused


class KillingCore(FakeCore):
    """It starts well, and its process is killed in every batch."""

    @classmethod
    def from_json(cls, config: str) -> Self:
        return cls(FakeCurve())

    def run(
        self,
        rows: Sequence[EngineRow],
        *,
        emit: Callable[[BatchStarted | RowDone | RowRefused | BatchDone], None],
        aborted: Callable[[], frozenset[int]],
        tick: Callable[[], None],
    ) -> None:
        emit(BatchStarted(rows=len(rows), prompt_tokens=0, tokens=0))
        os.kill(os.getpid(), signal.SIGKILL)
