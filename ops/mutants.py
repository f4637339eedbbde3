"""Shows that the tests guard what they claim to: breaks one guard after the other and sees a named test fail.

python ops/mutants.py                every mutant of mutants.toml
python ops/mutants.py --only lease   those whose guard, change or file has this word

Works on a copy of the project in a temporary folder, with this interpreter and its packages. Ends with 1 when a mutant
survives, when its text is not found exactly once, or when its tests fail without it.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGES = {"busload": "producer", "busload_shared": "shared", "busload_worker": "worker"}
LEFT_OUT = (".git", ".venv", "*_cache", ".hypothesis", "__pycache__", "bench-results", "dist", "build", "*.log")
LONGEST_S = 300


class WrongMutant(Exception):
    """The list must be mended: a mutant does not fit the code or the tests any more."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """`change` in words, `old` becomes `new` in `file`, and one of `tests` (as pytest names them) must notice."""

    guard: str
    change: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def has(self, word: str) -> bool:
        """Whether the word is in its description."""
        return word.lower() in f"{self.guard} {self.change} {self.file}".lower()


class Ran(NamedTuple):
    """How pytest ended, what it said, and how long it took."""

    code: int
    said: str
    seconds: float

    @property
    def failed(self) -> list[str]:
        """Names of the tests that failed."""
        return re.findall(r"^(?:FAILED|ERROR) \S*?::(.+?)(?: - .*)?$", self.said, re.MULTILINE)


def read_mutants(path: Path) -> list[Mutant]:
    """The list, checked: each is a change, and each has its tests."""
    entries = tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]
    mutants = [Mutant(**(entry | {"tests": tuple(entry["tests"])})) for entry in entries]
    for mutant in mutants:
        if mutant.old == mutant.new or not mutant.tests:
            raise WrongMutant(f"{mutant.guard}: no change, or no tests")
    return mutants


class Copy:
    """A copy of the project whose packages are imported instead of the installed ones."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        shutil.copytree(ROOT, self.root, ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=True)
        paths = [str(self.root / place) for place in PACKAGES.values()]
        self._environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
        self._check_imports()

    def _check_imports(self) -> None:
        code = f"import {', '.join(PACKAGES)}\nfor m in ({', '.join(PACKAGES)},): print(m.__file__)"
        said = self._python(["-c", code], timeout_s=60).said.split()
        if len(said) != len(PACKAGES) or not all(Path(file).is_relative_to(self.root) for file in said):
            raise WrongMutant(f"the copy's packages are not those that are imported: {said}")

    def test(self, tests: Sequence[str], *, timeout_s: float = LONGEST_S) -> Ran:
        """Run these tests until the first fails. A run that hangs is ended."""
        flags = ["-x", "-q", "-rfE", "--tb=short", "-p", "no:cacheprovider"]
        return self._python(["-m", "pytest", *flags, *tests], timeout_s=timeout_s)

    def broken_by(self, mutant: Mutant) -> Ran:
        """Run a mutant's tests with it, and mend the copy again."""
        file = self.root / mutant.file
        text = file.read_text(encoding="utf-8")
        if (found := text.count(mutant.old)) != 1:
            raise WrongMutant(f"{mutant.guard}: the text is {found} times in {mutant.file}, not once: {mutant.old!r}")
        file.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
        try:
            return self.test(mutant.tests)
        finally:
            file.write_text(text, encoding="utf-8")

    def _python(self, words: Iterable[str], *, timeout_s: float) -> Ran:
        began = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, *words],
            cwd=self.root,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            said, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said, _ = process.communicate()
            return Ran(-signal.SIGKILL, said, time.monotonic() - began)
        return Ran(process.returncode, said, time.monotonic() - began)


def check_sound(copy: Copy, mutants: Sequence[Mutant]) -> None:
    """Without a mutant all the tests pass, or their failing would prove nothing."""
    tests = list(dict.fromkeys(test for mutant in mutants for test in mutant.tests))
    ran = copy.test(tests, timeout_s=LONGEST_S * 5)
    if ran.code != 0:
        raise WrongMutant(f"these tests fail without any mutant:\n{ran.said[-3000:]}")


def verdict(ran: Ran) -> str:
    """Which test noticed; empty when none did. Raises WrongMutant when pytest could not tell."""
    if ran.code == 0:
        return ""
    if ran.code != 1 or not ran.failed:
        raise WrongMutant(f"pytest ended with {ran.code} and no failed test:\n{ran.said[-2000:]}")
    return ran.failed[0]


def try_all(mutants: Sequence[Mutant], copies: Sequence[Copy]) -> int:
    """Try each, as many at once as there are copies; print a row of the table for each. Returns how many survived."""
    free: Queue[Copy] = Queue()
    for copy in copies:
        free.put(copy)

    def row(mutant: Mutant) -> tuple[str, bool]:
        copy = free.get()
        try:
            ran = copy.broken_by(mutant)
            noticed = verdict(ran)
        except WrongMutant as error:
            return f"\n{error}\n", False
        finally:
            free.put(copy)
        return f"| {mutant.guard} | {mutant.change} | {noticed or '**none**'} | {ran.seconds:.1f} |", bool(noticed)

    survived = 0
    with ThreadPoolExecutor(len(copies)) as pool:
        for tried in as_completed([pool.submit(row, mutant) for mutant in mutants]):
            text, noticed = tried.result()
            print(text, flush=True)
            survived += not noticed
    return survived


def main(arguments: Sequence[str] | None = None) -> None:
    """Try the mutants, print the table, end with 0 only if every one was noticed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="a word of the guard, the change or the file")
    parser.add_argument("--jobs", type=int, default=2, help="how many at once")
    given = parser.parse_args(arguments)
    mutants = [mutant for mutant in read_mutants(Path(__file__).with_suffix(".toml")) if mutant.has(given.only)]
    with tempfile.TemporaryDirectory(prefix="busload-mutants-") as folder:
        copies = [Copy(Path(folder) / str(number)) for number in range(given.jobs)]
        print(f"{len(mutants)} mutants; first their tests without any", flush=True)
        check_sound(copies[0], mutants)
        print("| guard | what was broken | test that noticed | s |\n|---|---|---|---|", flush=True)
        survived = try_all(mutants, copies)
    print(f"\n{len(mutants) - survived} of {len(mutants)} noticed", flush=True)
    sys.exit(1 if survived else 0)


if __name__ == "__main__":
    try:
        main()
    except WrongMutant as error:
        sys.exit(f"mutants: {error}")
