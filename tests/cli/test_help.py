"""Help: every command explains itself with examples, and the page tells of every command."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from busload.cli import output
from busload.cli.app import app

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
COMMANDS = ["submit", "result", "wait", "status", "cancel", "queue", "top", "drain", "bench", "plan"]
COMMANDS += ["autoscale", "run", "results", "migrate", "dead list", "dead show", "dead redrive", "dead purge"]


def help_of(*words: str) -> str:
    ended = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "100", "TERM": "dumb"}, prog_name="busload")
    assert ended.exit_code == 0
    return ended.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_and_the_shared_options(command: str) -> None:
    text = help_of(*command.split())
    assert f"busload {command}" in text.split("Usage:", 1)[1].split("\n", 1)[1]
    if command != "plan":
        assert "BUSLOAD_REDIS_URL" in text


def test_the_commands_are_those_of_the_page() -> None:
    group = typer.main.get_command(app)
    names = set(group.commands) - {"dead"} | {f"dead {name}" for name in group.commands["dead"].commands}  # type: ignore[attr-defined]
    assert names == {*COMMANDS, "demo", "schema"}
    assert {name for name in names if f"`{name}`" not in PAGE and f"`busload {name}`" not in PAGE} == set()


def test_the_exit_codes_are_those_of_the_page() -> None:
    stated = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)}
    names = ("DONE", "BAD_NEWS", "ASKED_WRONGLY", "NO_REDIS", "REFUSED", "INTERRUPTED")
    assert stated == {getattr(output, name) for name in names}
    for code in stated:
        assert f"{code} " in output.CODES_HELP


def test_completion_can_be_installed() -> None:
    assert "--install-completion" in help_of()
