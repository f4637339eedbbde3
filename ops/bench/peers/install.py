"""Each peer's own virtual environment, made when it is first needed: `python -m peers.install [FOLDER]` makes all."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

VERSIONS = Path(__file__).with_name("versions.txt")
FOLDER = Path.home() / ".cache" / "busload" / "peers"
MARK = "installed.txt"
"""Holds the versions that were installed: another line in versions.txt installs again."""


class CannotInstall(Exception):
    """pip did not install a peer; the text is the end of what it said."""


def parse_versions(text: str) -> dict[str, list[str]]:
    """`name: requirement requirement` lines; `#` begins a comment."""
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    return {name.strip(): words.split() for name, _, words in (line.partition(":") for line in lines if line)}


def installed(name: str, folder: Path = FOLDER) -> str:
    """The path of the peer's Python, its environment made or renewed first. Raises CannotInstall."""
    wanted = parse_versions(VERSIONS.read_text(encoding="utf-8"))[name]
    home = folder / name
    python, mark = home / "bin" / "python", home / MARK
    if mark.is_file() and mark.read_text(encoding="utf-8").split() == wanted:
        return str(python)
    print(f"  {name}: installing {' '.join(wanted)} into {home} (a minute or two)", flush=True)
    try:
        venv.create(home, with_pip=True, symlinks=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise CannotInstall(f"no virtual environment at {home}: {error}") from None
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CannotInstall((done.stderr or done.stdout).strip()[-500:])
    mark.write_text(" ".join(wanted), encoding="utf-8")
    return str(python)


if __name__ == "__main__":
    failed = False
    for peer in parse_versions(VERSIONS.read_text(encoding="utf-8")):
        try:
            print(f"  {peer}: {installed(peer, Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)}")
        except CannotInstall as error:
            failed = True
            print(f"  {peer}: cannot be installed here: {error}")
    sys.exit(failed)
