"""Loads the Lua scripts: one operation a file, what they share under lua/lib."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).with_name("lua")


@cache
def source(name: str) -> str:
    """The full text of script `name`: the libraries its first line includes, then itself."""
    text = (FOLDER / f"{name}.lua").read_text(encoding="utf-8")
    include = re.match(r"-- include: (.+)\n", text)
    parts = include.group(1).split() if include else []
    return "\n".join([(FOLDER / "lib" / f"{part}.lua").read_text(encoding="utf-8") for part in parts] + [text])


def names() -> list[str]:
    """Every script there is."""
    return sorted(path.stem for path in FOLDER.glob("*.lua"))
