"""Counts what an engine tells: each row exactly once, and rows of this batch only.

Rows are never paired by position: an engine that loses one row would give every later one its neighbour's
answer.
"""

from __future__ import annotations

from collections.abc import Iterable

from busload_shared.errors import BatchFailed


class Tally:
    """The rows of one batch that are still to be told."""

    def __init__(self, batch: str, indexes: Iterable[int]) -> None:
        self._batch = batch
        self._left = set(indexes)
        self._rows = len(self._left)

    def told(self, index: int) -> None:
        """Take one row off. Raises BatchFailed when it is not of this batch, or was told before."""
        try:
            self._left.remove(index)
        except KeyError:
            raise BatchFailed(
                f"batch {self._batch}: the engine told of row {index}, which is told already or not among "
                f"the {self._rows} rows given"
            ) from None

    def close(self, aborted: frozenset[int]) -> None:
        """The engine says that the batch is over. Raises BatchFailed when a row that was wanted is
        missing."""
        missing = sorted(self._left - aborted)
        if missing:
            raise BatchFailed(
                f"batch {self._batch}: the engine was given {self._rows} rows and told of "
                f"{self._rows - len(self._left)}, {len(self._left & aborted)} aborted; missing: "
                f"{', '.join(map(str, missing[:10]))}"
            )
