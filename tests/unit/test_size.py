"""Sizes that keep the code readable: a file, a function and a script fit in one head each."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("producer", "shared", "worker", "ops", "tests")
PYTHON = sorted(file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py"))
LUA = sorted((ROOT / "shared" / "busload_shared" / "lua").rglob("*.lua"))
MAX_FILE_LINES = 300
MAX_FUNCTION_LINES = 40
MAX_LUA_LIBRARY_LINES = 100
"""For what several operations include: functions, each far shorter than an operation may be."""


def _name(file: Path) -> str:
    return str(file.relative_to(ROOT))


@pytest.mark.parametrize("file", PYTHON, ids=_name)
def test_python_files_and_functions_are_short(file: Path) -> None:
    source = file.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= MAX_FILE_LINES, f"split it: the limit is {MAX_FILE_LINES} lines"
    long = [f"{name} has {lines}" for name, lines in _function_lines(source) if lines > MAX_FUNCTION_LINES]
    assert not long, f"split these: a function has at most {MAX_FUNCTION_LINES} lines without its docstring"


def _function_lines(source: str) -> Iterator[tuple[str, int]]:
    """Each function's lines from its `def` to its end, its docstring and decorators left out."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = node.body[0] if ast.get_docstring(node, clean=False) is not None else None
            hidden = docstring.end_lineno - docstring.lineno + 1 if docstring and docstring.end_lineno else 0
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1 - hidden


@pytest.mark.parametrize("file", LUA, ids=_name)
def test_lua_files_are_short_and_open_with_their_contract(file: Path) -> None:
    lines = file.read_text(encoding="utf-8").splitlines()
    code = [line for line in lines if line.strip() and not line.lstrip().startswith("--")]
    operation = file.parent.name == "lua"
    limit = MAX_FUNCTION_LINES if operation else MAX_LUA_LIBRARY_LINES
    assert len(code) <= limit, f"split it: the limit is {limit} lines of code"
    header = "\n".join(lines[: next((i for i, line in enumerate(lines) if not line.startswith("--")), len(lines))])
    assert header, "say first what it does"
    if operation:
        for part in ("KEYS", "ARGV", "Returns"):
            assert re.search(rf"^-- +{part}\b", header, re.MULTILINE), f"the header must list {part}"


def test_no_file_is_a_drawer_for_what_has_no_place() -> None:
    drawers = {"utils.py", "util.py", "helpers.py", "misc.py", "common.py", "base.py"}
    assert [_name(file) for file in PYTHON if file.name in drawers] == []
