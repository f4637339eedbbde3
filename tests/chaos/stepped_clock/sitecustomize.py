"""Gives every Python process that has this folder on its PYTHONPATH a wall clock that another process steps.

The file named by CHAOS_CLOCK says by how many seconds the clock is wrong. (libfaketime 0.9.10 is of no use here:
under it every `time.sleep` of Python 3.11 fails with EINVAL.)
"""

from __future__ import annotations

import os
import time
from pathlib import Path


class _Skew:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._true, self._true_ns = time.time, time.time_ns
        self._read_at = -1.0
        self._seconds = 0.0

    def seconds(self) -> float:
        if time.monotonic() - self._read_at > 0.2:
            self._seconds = float(self._file.read_text(encoding="ascii"))
            self._read_at = time.monotonic()
        return self._seconds

    def install(self) -> None:
        time.time = lambda: self._true() + self.seconds()
        time.time_ns = lambda: self._true_ns() + int(self.seconds() * 1e9)


if "CHAOS_CLOCK" in os.environ:
    _Skew(Path(os.environ["CHAOS_CLOCK"])).install()
