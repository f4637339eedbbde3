"""A type checker of any make knows the type of every public name: no editor and no user's mypy has to guess."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = [ROOT / folder for folder in ("producer", "shared", "worker")]


def completeness(package: str, folder: Path) -> dict[str, Any]:
    """What pyright says of the package's public names."""
    # the checker finds neither an editable install nor, beside PYTHONPATH, what else is installed
    path = os.pathsep.join([*map(str, FOLDERS), sysconfig.get_path("purelib")])
    words = ["--verifytypes", package, "--ignoreexternal", "--outputjson"]
    command = [sys.executable, "-m", "basedpyright", *words]
    said = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path},
    )
    report: dict[str, Any] = json.loads(said.stdout)["typeCompleteness"]
    return report


@pytest.mark.parametrize("package", ["busload", "busload_shared"])
def test_every_public_name_has_a_known_type(package: str, tmp_path: Path) -> None:
    report = completeness(package, tmp_path)
    assert len(report["symbols"]) > 300
    unknown = [
        f"{symbol['name']}: {problem['message']}".splitlines()[0]
        for symbol in report["symbols"]
        if not symbol["isTypeKnown"] or symbol["isTypeAmbiguous"]
        for problem in symbol["diagnostics"]
        if problem["severity"] == "error"
    ]
    assert unknown == []


@pytest.mark.parametrize("folder", ["producer/busload", "shared/busload_shared", "worker/busload_worker"])
def test_each_package_says_that_it_is_typed(folder: str) -> None:
    assert (ROOT / folder / "py.typed").exists()
