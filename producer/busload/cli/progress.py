"""A bar on stderr for what takes long; in a pipe a line now and then."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from .output import Output

_REMIND_S = 10.0


class Counter:
    """Counts towards a total, which may change. `bar` is None where nobody sees one."""

    def __init__(self, output: Output, name: str, total: int, bar: Progress | None) -> None:
        self._output, self._name, self._bar = output, name, bar
        self._task = bar.add_task(name, total=total, detail="") if bar is not None else None
        self._total, self._done, self._detail = total, 0, ""
        self._said = time.monotonic()

    def advance(self) -> None:
        """One more is done."""
        self.update(self._done + 1)

    def update(self, done: int, *, total: int | None = None, detail: str = "") -> None:
        """So many are done; `detail` is what else there is to tell."""
        self._done, self._total, self._detail = done, self._total if total is None else total, detail
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done, total=self._total, detail=detail)
        elif time.monotonic() - self._said >= _REMIND_S:
            self._said = time.monotonic()
            self._output.note(f"{self._done} of {self._total} {self._name} {detail}".rstrip())

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """While the block prints on the same terminal, the bar is out of its way."""
        if self._bar is None or not self._output.out.is_terminal:
            yield
            return
        self._bar.stop()
        try:
            yield
        finally:
            self._bar.start()


@contextmanager
def counting(output: Output, name: str, *, total: int) -> Iterator[Counter]:
    """A counter with a bar while the block lasts. The bar vanishes at its end, however that comes."""
    if not output.shows_progress:
        yield Counter(output, name, total, None)
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[detail]}"),
    )
    bar = Progress(*columns, console=output.err, transient=True, redirect_stdout=False, redirect_stderr=False)
    with bar:
        yield Counter(output, name, total, bar)
