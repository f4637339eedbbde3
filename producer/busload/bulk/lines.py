"""Reads a file line by line, in bounded memory, and recognises what is in it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from pydantic_core import from_json

from busload_shared.errors import SettingsInvalid
from busload_shared.request import MAX_PAYLOAD_BYTES

LONGEST_LINE = 2 * MAX_PAYLOAD_BYTES
"""Bytes. Of a longer line the rest is skipped: no request is that long."""

_LOOKED_AT = 20
_BOM = b"\xef\xbb\xbf"

STDIN = "-"


class Format(StrEnum):
    """What a file's lines are."""

    openai = "openai"
    jsonl = "jsonl"
    csv = "csv"


class LineSource:
    """The lines of a file or of stdin, each with its number from 1. `size` is the file's, None where nobody knows."""

    def __init__(self, path: str) -> None:
        try:
            self._stream: BinaryIO = sys.stdin.buffer if path == STDIN else Path(path).open("rb")  # noqa: SIM115 - close() closes it
        except OSError as error:
            raise SettingsInvalid(f"{path}: {error.strerror}: give a file that can be read, or - for stdin") from None
        stat = os.fstat(self._stream.fileno())
        self.size: int | None = stat.st_size if path != STDIN else None
        self.bytes_read: int = 0
        self._lines = self._numbered()
        self._ahead: list[tuple[int, bytes]] = []

    def close(self) -> None:
        """Close the file."""
        if self._stream is not sys.stdin.buffer:
            self._stream.close()

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        while self._ahead:
            yield self._ahead.pop(0)
        yield from self._lines

    def recognise(self) -> Format:
        """What the first line that tells is. Reads ahead, and loses nothing."""
        self._ahead += islice(self._lines, _LOOKED_AT)
        lines = [line.strip() for _, line in self._ahead if line.strip()]
        if not lines or not lines[0].startswith(b"{"):
            return Format.csv if lines else Format.jsonl
        for line in lines:
            try:
                record = from_json(line)
            except ValueError:
                continue
            if isinstance(record, dict):
                return Format.openai if "body" in record else Format.jsonl
        return Format.jsonl

    def _numbered(self) -> Iterator[tuple[int, bytes]]:
        number = 0
        while line := self._stream.readline(LONGEST_LINE):
            number += 1
            self.bytes_read += len(line)
            if not line.endswith(b"\n"):
                self._skip_rest()
            yield number, line.removeprefix(_BOM) if number == 1 else line

    def _skip_rest(self) -> None:
        while rest := self._stream.readline(LONGEST_LINE):
            self.bytes_read += len(rest)
            if rest.endswith(b"\n"):
                return
