"""Starting processes that die with us, in a clean environment, and with a clock that can be stepped."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

_DIE_WITH_PARENT = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execv(sys.argv[1], sys.argv[1:])"


def clean_environment() -> dict[str, str]:
    """Ours without Busload's settings."""
    return {name: value for name, value in os.environ.items() if not name.startswith("BUSLOAD_")}


async def launch(words: list[str], environment: dict[str, str], **how: Any) -> asyncio.subprocess.Process:
    """Start a process in the project's folder. It is killed when we end, however we end."""
    command = [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, *words]
    return await asyncio.create_subprocess_exec(*command, env=environment, cwd=ROOT, **how)


class SteppedClock:
    """A wall clock that processes read and we step; see tests/chaos/stepped_clock/sitecustomize.py."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.step(0)

    def environment(self) -> dict[str, str]:
        """What a process needs beside `clean_environment` to have this clock; its children have it too."""
        paths = [str(Path(__file__).with_name("stepped_clock")), os.environ.get("PYTHONPATH", "")]
        return {"CHAOS_CLOCK": str(self._file), "PYTHONPATH": os.pathsep.join(filter(None, paths))}

    def step(self, seconds: float) -> None:
        """Set the clock so far from the true one."""
        aside = self._file.with_suffix(".new")
        aside.write_text(f"{seconds:+.0f}\n", encoding="ascii")
        aside.replace(self._file)
