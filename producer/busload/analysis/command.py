"""`busload results`, from its options to its summary."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn
from rich.table import Table
from rich.text import Text

from busload_shared.archive import Archive
from busload_shared.errors import SettingsInvalid
from busload_shared.partitions.archive import archive_of
from busload_shared.queue import Queue

from ..encoding import checked_id
from .columns import NAMES, Row, row_of
from .files import result_file

_AT_ONCE = 500
_GROUP_ROWS = 10_000
"""Rows written at once: a row group of a Parquet file."""
_SHOWN = ("id", "state", "status", "text", "completion_tokens", "waited_ms", "run_ms", "error_code")
_MOST_SHOWN, _SHOWN_CHARACTERS = 1000, 60
_SAY_S = 5.0


@dataclass(frozen=True, slots=True)
class ResultsOptions:
    """Which results, and where to: None is a table on the terminal."""

    ids: tuple[str, ...] = ()
    ids_file: str | None = None
    pattern: str | None = None
    output: str | None = None


@dataclass(slots=True)
class Tally:
    """How many ids were in which state; those that the user's rights do not tell are under None."""

    states: Counter[str | None] = field(default_factory=Counter)

    def line(self) -> str:
        """For people."""
        parts = [f"{count:,} {state or 'without a result'}" for state, count in sorted(self.states.items(), key=str)]
        return f"{self.states.total():,} ids: {', '.join(parts) or 'none'}"


async def run_results(queue: Queue, options: ResultsOptions, out: Console, err: Console) -> Tally:
    """Read and write, chunk by chunk; the queue is closed then. Raises SettingsInvalid, RequestInvalid,
    BusloadUnavailable."""
    if not (options.ids or options.ids_file or options.pattern):
        raise SettingsInvalid("say which results: ids, --ids-file, or --pattern")
    archive = archive_of(queue)
    tally = Tally()
    try:
        with _writing(options.output, out, tally) as take, _progress(err) as tell:
            async for chunk in _chunks(archive, options, err):
                rows = list(map(row_of, chunk, await archive.look(chunk)))
                tally.states.update(row[1] for row in rows)
                take(rows)
                tell(tally.states.total())
    finally:
        await queue.close()
    if not archive.reads_states:
        err.print(
            "this Redis user may not read states: ids without a result may be unknown, waiting, running or expired"
        )
    return tally


async def _chunks(archive: Archive, options: ResultsOptions, err: Console) -> AsyncIterator[list[str]]:
    """Ids, some hundreds at a time."""
    named = iter(_named(options))
    while chunk := list(islice(named, _AT_ONCE)):
        yield chunk
    if options.pattern is not None:
        size = await archive.size()
        keys = "all keys" if size is None else f"all {size:,} keys"
        err.print(
            f"--pattern walks {keys} of this Redis, a thousand at a time; results that come meanwhile may be missed"
        )
        async for page in archive.ids(options.pattern):
            yield page


def _named(options: ResultsOptions) -> Iterator[str]:
    yield from map(checked_id, options.ids)
    if options.ids_file is not None:
        yield from map(checked_id, filter(None, map(str.strip, _lines(options.ids_file))))


def _lines(path: str) -> Iterable[str]:
    if path == "-":
        yield from sys.stdin
        return
    try:
        with Path(path).open(encoding="utf-8") as file:
            yield from file
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsInvalid(f"{path}: {error}: give a text file with an id on each line") from None


@contextmanager
def _writing(output: str | None, out: Console, tally: Tally) -> Iterator[Callable[[list[Row]], None]]:
    """Takes rows, and writes them in groups."""
    if output is None:
        shown: list[Row] = []
        yield lambda rows: shown.extend(rows[: _MOST_SHOWN - len(shown)])
        out.print(_table(shown))
        if tally.states.total() > len(shown):
            out.print(f"the first {len(shown):,} of {tally.states.total():,}; give -o FILE for all")
        return
    file = result_file(output)
    held: list[Row] = []

    def take(rows: list[Row]) -> None:
        held.extend(rows)
        if len(held) >= _GROUP_ROWS:
            file.write(held)
            held.clear()

    try:
        yield take
        if held:
            file.write(held)
    finally:
        file.close()


def _table(rows: list[Row]) -> Table:
    table = Table(*_SHOWN)
    places = [NAMES.index(name) for name in _SHOWN]
    for row in rows:
        table.add_row(*[Text("" if row[at] is None else _short(row[at])) for at in places])
    return table


def _short(value: object) -> str:
    text = f"{value:.1f}" if isinstance(value, float) else " ".join(str(value).split())
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"


@contextmanager
def _progress(err: Console) -> Iterator[Callable[[int], object]]:
    """Shows how many were read, where somebody sees it; elsewhere a line now and then."""
    if err.is_terminal and not err.is_dumb_terminal:
        columns = (SpinnerColumn(), TextColumn("{task.completed:,} ids"))
        with Progress(*columns, console=err, transient=True, redirect_stdout=False) as bar:
            task = bar.add_task("", total=None, completed=0)
            yield lambda count: bar.update(task, completed=count)
        return
    said = time.monotonic()

    def tell(count: int) -> None:
        nonlocal said
        if time.monotonic() - said >= _SAY_S:
            said = time.monotonic()
            err.print(f"{count:,} ids read")

    yield tell
