"""The columns as Arrow has them: Parquet files and DataFrames."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from busload_shared.errors import SettingsInvalid

from .columns import COLUMNS, Row

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as _missing:
    raise SettingsInvalid('Parquet needs pyarrow: pip install "busload[analysis]"') from _missing

_TYPES = {
    "text": pa.string(),
    "whole": pa.int64(),
    "number": pa.float64(),
    "time": pa.timestamp("ms", tz="UTC"),
}
SCHEMA = pa.schema([pa.field(column.name, _TYPES[column.kind], nullable=column.name != "id") for column in COLUMNS])


def table_of(rows: Sequence[Row]) -> Any:
    """An Arrow table."""
    return pa.table(
        {
            column.name: pa.array([_value(row[at], column.kind) for row in rows], _TYPES[column.kind])
            for at, column in enumerate(COLUMNS)
        },
        schema=SCHEMA,
    )


def _value(value: Any, kind: str) -> Any:
    return round(value) if kind == "time" and value is not None else value


class ParquetFile:
    """A Parquet file with a row group for each chunk; whole once it is closed."""

    def __init__(self, path: Path) -> None:
        self._writer = pq.ParquetWriter(path, SCHEMA, compression="zstd")

    def write(self, rows: Sequence[Row]) -> None:
        """Append a row group."""
        self._writer.write_table(table_of(rows))

    def close(self) -> None:
        """Write the footer, without which it cannot be read."""
        self._writer.close()
