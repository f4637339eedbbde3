"""How long a batch of n rows will take, before it is known who rides. Pure; the simulator runs it too."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from busload_shared.curve import ServiceCurve

ROWS = 128
"""Answers remembered: among n of them the longest decides how long a batch takes."""


class BatchTimes:
    """Estimates from a service curve and the prompts and lengths of the last answers."""

    def __init__(self) -> None:
        self._rows: deque[tuple[int, int]] = deque(maxlen=ROWS)
        self._curve: ServiceCurve | None = None
        self._sorted: list[int] = []
        self._known: dict[int, float] = {}
        self._mean_prompt = self._mean_length = 0.0

    def learn(self, curve: ServiceCurve | None, rows: Iterable[tuple[int, int]]) -> None:
        """A batch ended: the curve as it is now, and each row's prompt and new tokens."""
        self._rows.extend(rows)
        self._curve = curve
        self._known = {}
        if self._rows:
            self._sorted = sorted(length for _, length in self._rows)
            self._mean_prompt = sum(prompt for prompt, _ in self._rows) / len(self._rows)
            self._mean_length = sum(self._sorted) / len(self._rows)

    def __call__(self, n: int) -> float:
        """The time of a batch of `n` rows like the last ones, ms; 0 while nothing is known, so that nobody waits."""
        if self._curve is None or not self._rows:
            return 0.0
        if n not in self._known:
            self._known[n] = self._curve.predict_ms(
                prompt_tokens=round(n * self._mean_prompt),
                longest=round(self.longest_of(n)),
                new_tokens=round(n * self._mean_length),
            )
        return self._known[n]

    def longest_of(self, n: int) -> float:
        """The mean of the longest among `n` answers drawn from those remembered."""
        m = len(self._sorted)
        shares = [(k / m) ** n for k in range(m + 1)]
        return sum(length * (shares[k + 1] - shares[k]) for k, length in enumerate(self._sorted))
