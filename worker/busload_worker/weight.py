"""How many rows the worker claims at once after batches ran out of memory. Pure."""

from __future__ import annotations

GROW_AFTER = 8
"""Batches in a row that must run well at a limit before it is doubled."""


class BatchLimit:
    """`now` is the most rows to claim: `most`, or less for a while after a batch was too much for the engine.

    What was too much for the memory is not known beforehand: the lengths of the rows decide, and what else is on the
    machine. So the limit falls at once to what went through, and rises again step by step.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._well = 0
        self.now = most

    def learn(self, *, ran_out: bool, too_heavy: bool, together: int) -> bool:
        """A batch is over: whether memory ran out in it, whether a row was too heavy alone, and the most rows that
        ran well together. True when the limit is another now.

        A row that is too heavy alone explains why all it rode with ran out: their number was not the reason.
        """
        before = self.now
        if ran_out and not too_heavy:
            self.shrink(together)
        elif not ran_out:
            self.grown(together)
        return self.now != before

    def shrink(self, size: int) -> None:
        """Rows ran out of memory together, and `size` of them then ran well, or 0 if none did."""
        self.now = max(1, min(size or self.now // 2, self._most // 2))
        self._well = 0

    def grown(self, size: int) -> None:
        """A batch of `size` rows ran well. A light one says nothing of a heavier one."""
        if self.now < self._most and size > self.now // 2:
            self._well += 1
        if self._well >= GROW_AFTER:
            self.now, self._well = min(self._most, self.now * 2), 0
