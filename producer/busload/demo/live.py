"""The demo on a terminal: answers scroll by, and the buses stay below them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from busload_shared.result import Result

from .questions import shown_question
from .summary import Batch, new_tokens
from .view import Board, Tell, latency, printable, seconds, shown_answer

_TRIGGER_STYLES = {"full": "green", "timeout": "yellow", "drain": "magenta", "retry": "red"}
_ANSWER_LINES = 2
_INDENT = 7
_WIDEST_BAR = 16


class LiveView:
    """Colours, a live table of buses, and a spinner while something takes long."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @contextmanager
    def step(self, text: str, done: str) -> Iterator[Tell]:
        began = time.monotonic()
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(*columns, console=self._console, transient=True) as progress:
            task = progress.add_task(text, total=None)
            yield lambda detail: progress.update(task, description=f"{text} {detail}".rstrip())
        took = f" [dim]({time.monotonic() - began:.1f} s)[/dim]"
        self._console.print(f"[green]✓[/green] {done}{took}", highlight=False)

    @contextmanager
    def ride(self, board: Board) -> Iterator[None]:
        picture = _Picture(board, rows=max(3, min(10, self._console.height // 3)))
        with Live(picture, console=self._console, refresh_per_second=8, transient=True):
            yield
        self._console.print()
        self._console.print(bus_table(board, rows=len(board.batches)))

    def say(self, text: str) -> None:
        self._console.print(Text("✓ ", style="green") + Text(text), soft_wrap=True)

    def answered(self, board: Board, result: Result) -> None:
        raw = result.id in board.pushed_raw
        head = Text()
        head.append(f"bus {board.number_of(result):<2} ", style="bold")
        head.append(f"{result.id} ", style="cyan")
        head.append("raw LPUSH " if raw else "client ", style="magenta" if raw else "blue")
        head.append(f"{latency(result)}, {new_tokens(result)} tokens  ", style="dim")
        head.append(printable(shown_question(board.asked[result.id])), style="italic")
        style = "" if result.status == "succeeded" else "bold red"
        self._console.print(head, no_wrap=True, overflow="ellipsis")
        self._console.print(Padding(self._cut(shown_answer(result), style), (0, 0, 0, _INDENT)))

    def _cut(self, text: str, style: str) -> Text:
        """The answer's first lines at this width."""
        width = self._console.width - _INDENT
        lines = Text(text, style=style).wrap(self._console, width)
        if len(lines) > _ANSWER_LINES:
            rest = Text(" ".join(line.plain.strip() for line in lines[_ANSWER_LINES - 1 :]), style=style)
            rest.truncate(width, overflow="ellipsis")
            lines[_ANSWER_LINES - 1] = rest
        return Text("\n").join(lines[:_ANSWER_LINES])


class _Picture:
    """Drawn anew at each refresh, so that times move while nothing happens."""

    def __init__(self, board: Board, *, rows: int) -> None:
        self._board = board
        self._rows = rows
        self._spinner = Spinner("dots")

    def __rich__(self) -> RenderableType:
        board = self._board
        waiting = board.info.waiting if board.info else 0
        riding = board.info.inflight if board.info else 0
        counts = f"{board.elapsed_s:.1f} s   {len(board.results)} of {board.total} answered   "
        self._spinner.update(text=Text(counts + f"{waiting} waiting at the stop   {riding} riding", style="bold"))
        return Group(Text(), bus_table(board, rows=self._rows), self._spinner)


def bus_table(board: Board, *, rows: int) -> Table:
    """The last `rows` buses, the one on the road included."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("bus", "batch", "left because", "seats"):
        table.add_column(name, no_wrap=True)
    for name in ("oldest waited", "ran", "tokens"):
        table.add_column(name, justify="right", no_wrap=True)
    numbered = list(enumerate(board.batches, start=1))
    for number, batch in numbered[-rows:]:
        style = _TRIGGER_STYLES[batch.trigger]
        numbers = (seconds(batch.waited_ms), seconds(batch.run_ms), str(batch.tokens))
        table.add_row(str(number), batch.id[-8:], Text(batch.trigger, style), _seats(board, batch), *numbers)
    if board.departing:
        name, size = board.departing
        table.add_row(str(len(numbered) + 1), name[-8:], "", _bar(0, size, board.seats), "", "on the road", "")
    return table


def _seats(board: Board, batch: Batch) -> Text:
    return _bar(batch.answered, batch.size, board.seats)


def _bar(answered: int, size: int, seats: int) -> Text:
    """A mark for each seat, filled for a rider who has the answer, hollow for one who rides, a dot for nobody."""
    bar = Text()
    if seats <= _WIDEST_BAR:
        bar.append("●" * answered, style="green")
        bar.append("○" * (size - answered), style="yellow")
        bar.append("·" * (seats - size) + " ", style="dim")
    return bar.append(f"{size}/{seats}")
