"""Words that must not stand in the project's files."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

REGISTRY_HOSTS = (
    r"pypi\.org|pythonhosted\.org|npmjs\.(org|com)|crates\.io|proxy\.golang\.org|rubygems\.org|anaconda\.org"
)
PYTORCH_HOST = r"download\.pytorch\.org"
FORBIDDEN = {
    rf"\b({REGISTRY_HOSTS}|{PYTORCH_HOST})\b": "name no host of a package registry: each user's pip knows its own",
    r"\b(FIXME|XXX|HACK)\b|\bTODO\b": "do it, or file an issue",
    r"(?<![\w./$}-])/(work|opt/wheels|opt/pypi)\b": "a path of one machine",
    r"^(<{7}|>{7}|={7})( |$)": "left over from a merge",
}
ALLOWED = {
    # PyTorch's CPU build is on no other index.
    "ops/install.sh": PYTORCH_HOST,
    "ops/docker/worker.Dockerfile": PYTORCH_HOST,
}


def project_files() -> list[Path]:
    """The files that git knows or would add, this one left out: it names what it forbids."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("needs a git checkout to know the project's files")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    files = [ROOT / name for name in listed.split("\0") if name]
    return [file for file in files if file.is_file() and file != Path(__file__)]


@pytest.mark.parametrize("pattern", FORBIDDEN, ids=FORBIDDEN.values())
def test_no_forbidden_word(pattern: str) -> None:
    word = re.compile(pattern, re.MULTILINE)
    found = []
    for file in project_files():
        name = str(file.relative_to(ROOT))
        allowed = ALLOWED.get(name)
        for match in word.finditer(file.read_bytes().decode("utf-8", errors="replace")):
            if not (allowed and re.fullmatch(allowed, match.group())):
                found.append(f"{name}: {match.group()}")
    assert not found, FORBIDDEN[pattern]
