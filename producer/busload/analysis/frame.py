"""Results as a pandas DataFrame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from busload_shared.archive import Archive
from busload_shared.errors import SettingsInvalid

from .columns import COLUMNS, Row, row_of

if TYPE_CHECKING:
    from pandas import DataFrame

_AT_ONCE = 500
_DTYPES = {"text": "string", "whole": "Int64", "number": "Float64", "time": "datetime64[ms, UTC]"}


async def frame_of(archive: Archive, request_ids: Sequence[str]) -> DataFrame:
    """See `AsyncClient.results_frame`. Raises SettingsInvalid without pandas."""
    try:
        import pandas as pd
    except ImportError:
        raise SettingsInvalid('DataFrames need pandas: pip install "busload[analysis]"') from None
    rows: list[Row] = []
    for start in range(0, len(request_ids), _AT_ONCE):
        chunk = request_ids[start : start + _AT_ONCE]
        rows += map(row_of, chunk, await archive.look(chunk))
    series = {}
    for at, column in enumerate(COLUMNS):
        values = [row[at] for row in rows]
        if column.kind == "time":
            series[column.name] = pd.to_datetime(pd.Series(values, dtype="Float64"), unit="ms", utc=True).astype(
                _DTYPES[column.kind]
            )
        else:
            series[column.name] = pd.Series(values, dtype=_DTYPES[column.kind])
    return pd.DataFrame(series)
