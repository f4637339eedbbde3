"""A file that only grows by whole records: what is in it stays, a torn end is cut off, and nobody else writes to it."""

from __future__ import annotations

import fcntl
import os
import sys
import time
from pathlib import Path
from typing import BinaryIO

from busload_shared.errors import BusloadError, SettingsInvalid

from .written import Written

_SYNC_S = 10.0
"""At most this much is lost when the machine itself fails; a killed process loses nothing that was appended."""


class Sink:
    """The output or the error file; the latter is made when its first record comes. `header` is that of a CSV file."""

    def __init__(self, path: Path | None, *, header: bytes = b"") -> None:
        """None is stdout."""
        self._path = path
        self._header = header
        self._file: BinaryIO | None = sys.stdout.buffer if path is None else None
        self._fresh = True
        self._synced = time.monotonic()

    @property
    def name(self) -> str:
        """For people."""
        return "stdout" if self._path is None else str(self._path)

    def recover(self, written: Written, *, failed: bool) -> None:
        """Take in what an earlier run wrote, and cut off a record it has not finished."""
        if self._path is None or not self._path.exists():
            return
        file = self._open(self._path)
        end = written.read(file, self.name, failed=failed, header=self._header)
        os.ftruncate(file.fileno(), end)
        self._fresh = end == 0

    def open(self) -> None:
        """Make the file, if it is not there."""
        if self._file is None and self._path is not None:
            self._open(self._path)
        if self._header and self._fresh:
            self._write(self._header)
        self._fresh = False

    def append(self, records: list[bytes]) -> None:
        """Write records; once this returns they outlive this process. Raises BusloadError."""
        if not records:
            return
        if self._file is None or self._fresh:
            self.open()
        self._write(b"".join(records))
        if time.monotonic() - self._synced > _SYNC_S:
            self._sync()

    def close(self) -> None:
        """Bring what was written to the disk."""
        if self._file is not None and self._path is not None:
            self._sync()
            self._file.close()
            self._file = None

    def _open(self, path: Path) -> BinaryIO:
        try:
            file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666), "r+b")
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SettingsInvalid(f"{path}: another run is writing to it: wait for its end, or stop it") from None
        except OSError as error:
            raise SettingsInvalid(f"{path}: {error.strerror}: give a file that can be written") from None
        self._file = file
        return file

    def _write(self, block: bytes) -> None:
        assert self._file is not None
        left = memoryview(block)
        try:
            while left:
                left = left[os.write(self._file.fileno(), left) :]
        except OSError as error:
            raise BusloadError(
                f"{self.name}: {error.strerror}: see to it, then give the same command again: it goes on from here"
            ) from None

    def _sync(self) -> None:
        if self._file is not None and self._path is not None:
            os.fsync(self._file.fileno())
            self._synced = time.monotonic()
