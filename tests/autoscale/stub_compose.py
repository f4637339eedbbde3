"""Executables that stand in for Docker's on PATH, and write down how they were called."""

from __future__ import annotations

import stat
from pathlib import Path

_SCRIPT = """#!/bin/sh
echo "{name} $*" >> "{log}"
{lines}
"""


class StubBin:
    """A folder to put first on PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder, folder / "calls.txt"

    def add(self, name: str, lines: str = "exit 0") -> None:
        """An executable that does so; `$*` are its arguments."""
        path = self.folder / name
        path.write_text(_SCRIPT.format(name=name, log=self.log, lines=lines), encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    @property
    def calls(self) -> list[str]:
        """How they were called so far."""
        return self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []
