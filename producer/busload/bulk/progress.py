"""How far a bulk file is, on stderr: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn

from .job import Counts
from .lines import LineSource

_LOOK_S, _SAY_S = 0.2, 5.0


class BulkProgress:
    """Told at every turn; draws five times a second at most. The total is estimated from the bytes read so far."""

    def __init__(self, console: Console, source: LineSource, counts: Counts) -> None:
        self._console, self._source, self._counts = console, source, counts
        self._began = self._said = self._looked = time.monotonic()
        self._bar: Progress | None = None
        if console.is_terminal and not console.is_dumb_terminal:
            columns = (SpinnerColumn(), BarColumn(bar_width=24), TaskProgressColumn(), TextColumn("{task.description}"))
            self._bar = Progress(*columns, console=console, transient=True, redirect_stdout=False)
            self._task = self._bar.add_task("reading", total=None)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def tell(self) -> None:
        """Show where things stand, if it is time to."""
        now = time.monotonic()
        if now - self._looked < _LOOK_S:
            return
        self._looked = now
        if self._bar is not None:
            self._bar.update(self._task, completed=self._counts.done, total=self._total(), description=self._line(now))
        elif now - self._said >= _SAY_S:
            self._said = now
            self._console.print(self._line(now), soft_wrap=True, markup=False)

    def _total(self) -> int | None:
        source = self._source
        if source.size is None or not source.bytes_read:
            return None
        return max(self._counts.read, round(self._counts.read * source.size / source.bytes_read))

    def _line(self, now: float) -> str:
        counts, total = self._counts, self._total()
        here = counts.done - counts.skipped
        rate = here / max(now - self._began, 1e-9)
        parts = [f"{counts.done:,} lines" if total is None else f"{counts.done:,} of about {total:,} lines"]
        parts.append(f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s")
        if total is not None and rate > 0:
            parts.append(f"{_span((total - counts.done) / rate)} left")
        if wrong := counts.failed + counts.invalid:
            parts.append(f"{wrong:,} with errors")
        return ", ".join(parts)


def _span(seconds: float) -> str:
    """h:mm:ss."""
    minutes, second = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{second:02}"
