"""Which partitions a worker looks at, and in which order. Pure: times are s on the worker's monotonic clock."""

from __future__ import annotations

import math

ATTENDANTS = 32
"""With so many workers for each partition or fewer, every worker attends to all partitions. Beyond that each attends to
fewer at a time, in turn: a request wakes some of those who are free, not all of a thousand."""


def attended(partitions: int, workers: int) -> int:
    """How many partitions one of so many workers looks at in one turn."""
    return min(partitions, max(1, math.ceil(partitions * ATTENDANTS / max(1, workers))))


class Turns:
    """The oldest first, as far as this worker knows: for each partition it keeps a moment before which nobody who
    waits there can have come. A look moves it. What was not looked at keeps its moment, and so comes to the front.

    Such a moment may be wrong: a forged stamp, or a priority, and one partition would stay in front. So a partition
    that was passed over for twice as many batches as there are partitions comes first, whatever the moments say.
    """

    def __init__(self, count: int, *, start: int) -> None:
        """`start` is where the first round begins: workers should differ."""
        self._start = start
        self._since = [-math.inf] * count
        self._passed = [0] * count
        self._rung: set[int] = set()

    def order(self) -> list[int]:
        """The partitions, the one to look at first in front."""
        return sorted(range(len(self._since)), key=self._rank)

    def _rank(self, number: int) -> tuple[bool, bool, float, int]:
        count = len(self._since)
        overlooked = self._passed[number] >= 2 * count
        return not overlooked, number not in self._rung, self._since[number], (number - self._start) % count

    def rang(self, number: int) -> None:
        """Somebody has just come there."""
        self._rung.add(number)

    def waiting_since(self, number: int, oldest: float) -> None:
        """A look found no batch that leaves. The oldest there came then; now, where nobody waits."""
        self._seen(number)
        self._since[number] = oldest

    def claimed(self, number: int, left_since: float | None) -> None:
        """A batch left. Who is left there came no earlier than `left_since`; None when that cannot be told."""
        for other in range(len(self._passed)):
            self._passed[other] += 1
        self._seen(number)
        if left_since is not None:
            self._since[number] = max(self._since[number], left_since)

    def _seen(self, number: int) -> None:
        self._passed[number] = 0
        self._rung.discard(number)
