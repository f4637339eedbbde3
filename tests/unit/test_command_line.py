"""`busload` and `python -m busload`: commands, and what is said when something is missing."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


def busload(*words: str, before: str = "pass") -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own, after the statement `before`."""
    code = f"import sys; {before}; sys.argv = ['busload', *{list(words)!r}]; from busload.__main__ import main; main()"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(("part", "field"), [("request", "prompt"), ("result", "outputs")])
def test_schema_prints_json(part: str, field: str) -> None:
    run = busload("schema", part)
    assert run.returncode == 0, run.stderr
    assert field in json.loads(run.stdout)["properties"]


def test_without_its_libraries_the_command_says_what_to_install() -> None:
    run = busload("demo", before="sys.modules['typer'] = None")
    assert run.returncode == 2
    assert "pip install 'busload[cli]'" in run.stderr
    assert "Traceback" not in run.stderr


def test_help_names_the_commands_and_loads_nothing_heavy() -> None:
    run = busload("--help", before="import atexit; atexit.register(lambda: print(sorted(sys.modules)))")
    assert run.returncode == 0
    for command in ("demo", "schema"):
        assert command in run.stdout
    for heavy in ("'vllm'", "'torch'", "'busload_worker'"):
        assert heavy not in run.stdout


def test_a_wrong_option_is_a_usage_error() -> None:
    assert busload("demo", "--engine", "steam").returncode == 2


def test_a_missing_prompt_file_is_an_error_without_a_traceback() -> None:
    run = busload("demo", "--engine", "fake", "--prompts", "/no/such/file")
    assert run.returncode == 1
    assert "/no/such/file" in run.stdout
    assert "Traceback" not in run.stderr
