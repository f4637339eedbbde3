"""CSV: a header with the names of a request's fields, and a request in each row."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from busload_shared.errors import RequestInvalid, SettingsInvalid
from busload_shared.request import MAX_PAYLOAD_BYTES, Request

from .lines import LineSource

_TEXTS = frozenset({"id", "custom_id", "prompt", "regex", "grammar", "route"})
_METADATA = "metadata."
_DELIMITERS = ",;\t"


@dataclass(frozen=True, slots=True)
class Row:
    """One row, `text` as it is compared with what was written; `broken` where it cannot be read."""

    names: Sequence[str]
    cells: Sequence[str]
    broken: str = ""

    @property
    def text(self) -> bytes:
        return "\x1f".join([*self.names, *self.cells]).encode("utf-8", "surrogateescape")

    def fields(self) -> dict[str, Any]:
        """Fields of a request; an empty cell is a field left out. Raises RequestInvalid."""
        if self.broken:
            raise RequestInvalid(self.broken)
        if len(self.cells) != len(self.names):
            raise RequestInvalid(f"the row has {len(self.cells)} cells and the header {len(self.names)}")
        fields: dict[str, Any] = {}
        for name, cell in zip(self.names, self.cells, strict=True):
            if not cell:
                continue
            if name.startswith(_METADATA):
                fields.setdefault("metadata", {})[name.removeprefix(_METADATA)] = cell
            else:
                fields[name] = cell if name in _TEXTS else _value(cell)
        return fields


def rows(source: LineSource) -> Iterator[tuple[int, Row]]:
    """The rows with the numbers of their first lines. Raises SettingsInvalid for a header that is none."""
    lines = iter(source)
    number, first = next(lines, (0, b""))
    delimiter, names = _header(first)
    csv.field_size_limit(MAX_PAYLOAD_BYTES)
    reader = csv.reader((line.decode("utf-8", "surrogateescape") for _, line in lines), delimiter=delimiter)
    while True:
        began = number + reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield began, Row(names, [], f"not CSV: {error}")
            continue
        if cells:
            yield began, Row(names, cells)


def _header(line: bytes) -> tuple[str, list[str]]:
    text = line.decode("utf-8", "replace")
    for delimiter in _DELIMITERS:
        names = [name.strip() for name in next(csv.reader(io.StringIO(text), delimiter=delimiter), [])]
        if {"prompt", "messages", "prompt_token_ids"} & set(names):
            _check(names)
            return delimiter, names
    raise SettingsInvalid(
        "this is no file of requests: give JSON lines, or CSV whose first line names a column prompt; "
        "--format says what it is"
    )


def _check(names: list[str]) -> None:
    known = {*Request.model_fields, "custom_id"}
    for name in names:
        if name not in known and not name.startswith(_METADATA):
            raise SettingsInvalid(
                f"column {name[:64]!r} is no field of a request: rename it, or call it metadata.{name[:64]} to have it "
                "handed back"
            )
    if len(set(names)) < len(names):
        raise SettingsInvalid("two columns have the same name")


def _value(cell: str) -> Any:
    """Numbers, true, false and lists as JSON writes them; anything else is text."""
    try:
        return from_json(cell)
    except ValueError:
        return cell
