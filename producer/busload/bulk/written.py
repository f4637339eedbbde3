"""Which lines have been written before, and which names were seen: both in a few bytes a line."""

from __future__ import annotations

import re
from array import array
from hashlib import blake2b
from itertools import repeat
from typing import BinaryIO

from busload_shared.errors import SettingsInvalid

_DIGEST_BYTES = 6
_DIGEST = (1 << 8 * _DIGEST_BYTES) - 1
_WRITTEN = 1 << 8 * _DIGEST_BYTES

_OUR_LINE = re.compile(rb'(?:\{"id":")?([\w.:+-]+)-(\d+)-([0-9a-f]{12})[",]')
"""How each line that we write begins, in JSON and in CSV."""


class Job:
    """Names requests: job, line number, and a digest of the line, so that a changed line is another request."""

    def __init__(self, name: str) -> None:
        if not re.fullmatch(r"[\w.:+-]{1,128}", name, re.ASCII):
            raise SettingsInvalid(f"job {name[:64]!r}: give 1 to 128 letters, digits and . : + - _")
        self.name = name

    @classmethod
    def of_files(cls, source: str, target: str) -> Job:
        """The same files are the same job."""
        return cls(
            "bulk-" + blake2b(f"{source}\0{target}".encode("utf-8", "surrogateescape"), digest_size=6).hexdigest()
        )

    def request_id(self, number: int, digest: str) -> str:
        """The id under which a line is submitted, in every run of this job."""
        return f"{self.name}-{number}-{digest}"


def digest_of(text: bytes) -> str:
    """48 bits of a line."""
    return blake2b(text, digest_size=_DIGEST_BYTES).hexdigest()


class Written:
    """The lines that stand in the output or the error file: 8 bytes for each line up to the last of them."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._lines = array("Q")
        self.succeeded: int = 0
        self.failed: int = 0

    @property
    def last(self) -> int:
        """The highest number of a line that is written."""
        return len(self._lines) - 1

    def holds(self, number: int, digest: str) -> bool:
        """Whether the line is written. Raises SettingsInvalid for one that was another when it was written."""
        known = self._lines[number] if number < len(self._lines) else 0
        if not known:
            return False
        if known & _DIGEST != int(digest, 16):
            raise SettingsInvalid(
                f"line {number} of the input was another when its result was written: give another output file, or "
                "put the old line back"
            )
        return True

    def read(self, file: BinaryIO, name: str, *, failed: bool, header: bytes) -> int:
        """Take in what stands in a file; returns where its last whole record ends. `header` is that of a CSV file,
        whose records may hold line breaks in quotes. Raises SettingsInvalid for what this job has not written."""
        end, at, quotes, record = 0, 0, 0, b""
        for line in file:
            at += len(line)
            record = record or line
            if header:
                quotes += line.count(b'"')
            if quotes % 2 or not line.endswith(b"\n"):
                continue
            if record != header or end:
                self._take(record, name, failed=failed)
            end, record = at, b""
        return end

    def _take(self, record: bytes, name: str, *, failed: bool) -> None:
        found = _OUR_LINE.match(record)
        if found is None or found[1].decode() != self._job.name:
            raise SettingsInvalid(
                f"{name} holds something that this job has not written: give another file, or with --job the name of "
                "the job that wrote it"
            )
        number = int(found[2])
        if number >= len(self._lines):
            self._lines.extend(repeat(0, number + 1 - len(self._lines)))
        if not self._lines[number]:
            self.failed += failed
            self.succeeded += not failed
        self._lines[number] = int(found[3], 16) | _WRITTEN


class Names:
    """Names that were seen: 64 bits of each in an open table, 12 to 24 bytes a name. Two of a million names are taken
    for one with a chance of 1 in 30 million."""

    def __init__(self) -> None:
        self._table = array("Q", bytes(8 * 1024))
        self._count = 0

    def add(self, name: str) -> bool:
        """Remember a name; False when it was there."""
        key = int.from_bytes(blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big") or 1
        if not _put(self._table, key):
            return False
        self._count += 1
        if 3 * self._count > 2 * len(self._table):
            self._grow()
        return True

    def _grow(self) -> None:
        table = array("Q", bytes(8 * 2 * len(self._table)))
        for key in self._table:
            if key:
                _put(table, key)
        self._table = table


def _put(table: array[int], key: int) -> bool:
    mask = len(table) - 1
    at = key & mask
    while known := table[at]:
        if known == key:
            return False
        at = (at + 1) & mask
    table[at] = key
    return True
