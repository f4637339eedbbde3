"""An engine that refuses rows with the code their metadata names, for test_worker_metrics.py: its process imports it by
name. A batch whose row says so did not run as one unit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self

from busload_shared.result import Proof
from busload_worker.engines.fake_core import Emit, FakeCore
from busload_worker.engines.fake_model import FakeCurve
from busload_worker.engines.protocol import BatchDone, BatchStarted, EngineRow, RowDone, RowRefused


class TellingCore(FakeCore):
    """`{"code": "engine_error"}` refuses, `{"apart": true}` breaks the proof."""

    @classmethod
    def from_json(cls, config: str) -> Self:
        return cls(FakeCurve())

    def run(
        self,
        rows: Sequence[EngineRow],
        *,
        emit: Emit,
        aborted: Callable[[], frozenset[int]],
        tick: Callable[[], None],
    ) -> None:
        said = [(row, row.request.metadata or {}) for row in rows]
        apart = any("apart" in metadata for _, metadata in said)

        def tell(event: BatchStarted | RowDone | RowRefused | BatchDone) -> None:
            if apart and isinstance(event, BatchDone):
                event = event.model_copy(update={"proof": Proof(spread_ms=1, preemptions=0)})
            emit(event)

        for row, metadata in said:
            if "code" in metadata:
                emit(RowRefused(index=row.index, code=metadata["code"], message="as it asks"))  # type: ignore[arg-type]
        good = [row for row, metadata in said if "code" not in metadata]
        super().run(good, emit=tell, aborted=aborted, tick=tick)
