"""Files of results, written chunk by chunk: JSON lines, CSV or Parquet by the name's ending."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from pydantic_core import to_json

from busload_shared.errors import SettingsInvalid

from .columns import COLUMNS, NAMES, Row

STDOUT = "-"


class ResultFile(Protocol):
    """Takes rows until it is closed."""

    def write(self, rows: Sequence[Row]) -> None: ...

    def close(self) -> None: ...


def result_file(path: str) -> ResultFile:
    """By the ending: .jsonl, .csv, .parquet; `-` is JSON lines on stdout. Raises SettingsInvalid."""
    try:
        if path == STDOUT:
            return _JsonLines(sys.stdout.buffer)
        if path.endswith(".parquet"):
            from .arrow import ParquetFile

            return ParquetFile(Path(path))
        if path.endswith((".jsonl", ".ndjson", ".json")):
            return _JsonLines(Path(path).open("wb"))
        if path.endswith(".csv"):
            return _Table(Path(path).open("wb"))
    except OSError as error:
        raise SettingsInvalid(f"{path}: {error.strerror}: give a file that can be written") from None
    raise SettingsInvalid(f"{path}: give a name that ends with .jsonl, .csv or .parquet, or - for stdout")


class _JsonLines:
    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, rows: Sequence[Row]) -> None:
        for row in rows:
            fields = {name: value for name, value in zip(NAMES, _timed(row), strict=True) if value is not None}
            self._stream.write(to_json(fields) + b"\n")

    def close(self) -> None:
        self._stream.flush()
        if self._stream is not sys.stdout.buffer:
            self._stream.close()


class _Table:
    def __init__(self, stream: BinaryIO) -> None:
        self._stream = io.TextIOWrapper(stream, encoding="utf-8", newline="", errors="replace")
        self._writer = csv.writer(self._stream, lineterminator="\n")
        self._writer.writerow(NAMES)

    def write(self, rows: Sequence[Row]) -> None:
        self._writer.writerows(map(_timed, rows))

    def close(self) -> None:
        self._stream.close()


_TIMES = [at for at, column in enumerate(COLUMNS) if column.kind == "time"]


def _timed(row: Row) -> Sequence[Any]:
    """Times as ISO 8601."""
    cells = list(row)
    for at in _TIMES:
        if cells[at] is not None:
            cells[at] = datetime.fromtimestamp(cells[at] / 1000, UTC).isoformat(timespec="milliseconds")
    return cells
