"""A worker with a hostile or broken setting ends with code 2 and names it; it never starts with something else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from busload_worker.__main__ import WRONG_SETTING, main
from busload_worker.settings import Settings

NUMBERS = ["", " ", "nan", "inf", "-inf", "-1", "1e400", "9" * 5000, "0x10", "1,5", "ten", "[]", "{", "\udcff", "1;ls"]
NUMERIC = ["max_wait_ms", "max_batch_tokens"]
"""Numbers that may also be words; below are all others."""
NUMERIC += [name for name, field in Settings.model_fields.items() if field.annotation in (int, float)]
WORDS = {
    "queue": ["", "a{b}", "a b", "a\nb", "x" * 129, "\u202e"],
    "release": ["", "rows", "row;", "ROW"],
    "engine_host": ["", "none"],
    "worker_name": ["", "a b", "a\nb", "x" * 129, "\x1b[31m"],
    "log_format": ["", "xml"],
    "log_level": ["", "TRACE", "debug"],
    "redis_url": ["", "x", "http://h", "redis://h:port", "redis://h:99999999", "redis://:pass-word@h:x"],
    "ready_file": ["/no/such/folder/ready", "/", "."],
}
CASES = [(name, value) for name in NUMERIC for value in NUMBERS] + [
    (name, value) for name, values in WORDS.items() for value in values
]


@pytest.fixture(autouse=True)
def _no_settings_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("BUSLOAD_"):
            monkeypatch.delenv(name)
    monkeypatch.setattr(sys, "argv", ["busload-worker"])


def code_and_words(capsys: pytest.CaptureFixture[str]) -> tuple[object, str]:
    """How the command ends, and what it says."""
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code, capsys.readouterr().err


@pytest.mark.parametrize(("name", "value"), CASES, ids=[f"{name}-{number}" for number, (name, _) in enumerate(CASES)])
def test_a_hostile_value_ends_the_worker_with_code_2_and_its_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, value: str
) -> None:
    monkeypatch.setenv(f"BUSLOAD_{name.upper()}", value)
    code, said = code_and_words(capsys)
    assert code == WRONG_SETTING
    assert f"BUSLOAD_{name.upper()}" in said or name in said
    assert len(said) < 2000
    assert "pass-word" not in said
    assert "Traceback" not in said


FILES = {
    "no TOML": b"max_batch_size 8",
    "binary": bytes(range(256)),
    "invalid UTF-8": b'queue = "\xff"',
    "deep": b"a = " + b"[" * 5000 + b"]" * 5000,
    "an unknown setting": b"max_batch = 8",
    "a wrong type": b'max_batch_size = {a = 1}',
    "a NUL in a path": b'ready_file = "/tmp/a\\u0000b"',
    "a date": b"max_wait_ms = 2026-01-01",
}  # fmt: skip


@pytest.mark.parametrize("what", FILES)
def test_a_broken_settings_file_ends_the_worker_with_code_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, what: str
) -> None:
    file = tmp_path / "busload.toml"
    file.write_bytes(FILES[what])
    monkeypatch.setenv("BUSLOAD_SETTINGS_FILE", str(file))
    code, said = code_and_words(capsys)
    assert code == WRONG_SETTING, said
    assert "BUSLOAD_" in said
    assert len(said) < 2000


def test_an_option_of_vllm_without_a_bottom_is_a_wrong_setting(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BUSLOAD_VLLM_HF_OVERRIDES", "[" * 100_000)
    code, said = code_and_words(capsys)
    assert code == WRONG_SETTING, said
    assert "BUSLOAD_VLLM_HF_OVERRIDES" in said


@pytest.mark.parametrize("arguments", [["--queue"], ["--no-such-flag", "1"], ["--max-batch-size", "1e9"], ["\x00"]])
def test_a_hostile_flag_ends_a_real_process_with_code_2(arguments: list[str]) -> None:
    if "\x00" in arguments:
        arguments = ["\ufffd"]  # the system lets no NUL into an argument
    command = [sys.executable, "-m", "busload_worker", *arguments]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 2, run.stderr
    assert "Traceback" not in run.stderr
