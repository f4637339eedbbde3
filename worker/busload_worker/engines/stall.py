"""Tells a hung engine from a slow one, by the progress it shows."""

from __future__ import annotations


class Stall:
    """Adds up the time in which a batch showed no step.

    Looked at every `step_s`. A look that comes much later than that was late because we ourselves were paused
    (a stopped container, a blocked loop): no more than two steps of it count against the engine.
    """

    def __init__(self, hang_s: float, *, now: float) -> None:
        self._hang_s = hang_s
        self.step_s = max(0.02, min(1.0, hang_s / 8))
        self._looked = now
        self._progress: int | None = None
        self._beats: int | None = None
        self._still_s = 0.0
        self._silent_s = 0.0

    def moved(self, *, now: float) -> None:
        """The engine told of a row."""
        self._looked = now
        self._still_s = self._silent_s = 0.0

    def look(self, *, progress: int, beats: int, now: float) -> None:
        """It told nothing since the last look; this is how far it is, and how often its process beat."""
        passed = min(now - self._looked, 2 * self.step_s)
        self._still_s = 0.0 if progress != self._progress else self._still_s + passed
        self._silent_s = 0.0 if beats != self._beats else self._silent_s + passed
        self._looked, self._progress, self._beats = now, progress, beats

    @property
    def hung(self) -> bool:
        return self._still_s >= self._hang_s

    def verdict(self) -> str:
        """What it looks like from here, for the log."""
        silent = self._silent_s >= self._hang_s / 2
        seen = "its process is silent too: stopped, or starved" if silent else "its process is alive"
        return f"hung: no step for {self._still_s:.1f} s ({seen})"
