"""Fuzzes all that reads bytes of strangers, for a bounded time: `python -m tests.hostile.fuzz_parser --seconds 20`.

With atheris (`pip install atheris`) it is guided by coverage; without it Hypothesis makes the bytes. Ends with 0 when
nothing but what the doors promise was raised, else with 1 and the bytes that did it, which `--replay FILE` runs again.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.hostile.junk import ODD, READABLE, UNREADABLE

_LARGEST = 4096


def seeds() -> list[bytes]:
    """Where a fuzzer begins: each kind of junk that is small enough, and valid requests and letters."""
    known = [*UNREADABLE.values(), *(junk.element for junk in READABLE.values()), *ODD.values()]
    letters = [b'[{"v":1,"id":"a","status":"succeeded"},"b"]', b'{"v":1,"id":"a","status":"failed","error":null}']
    return [data for data in known + letters if len(data) <= _LARGEST]


def _guided(seconds: float, folder: Path) -> int:
    """In a process of its own: libFuzzer ends the one it runs in."""
    corpus = folder / "corpus"
    corpus.mkdir()
    for number, seed in enumerate(seeds()):
        (corpus / f"{number}").write_bytes(seed)
    options = [f"-max_total_time={max(1, round(seconds))}", f"-max_len={_LARGEST}", "-timeout=20", "-rss_limit_mb=2048"]
    command = [sys.executable, "-m", "tests.hostile.fuzz_parser", "--guided", *options]
    command += [f"-artifact_prefix={folder}/", "-print_final_stats=1", str(corpus)]
    run = subprocess.run(command, timeout=seconds + 120, check=False)
    for file in sorted(folder.glob("*-*")):
        print(f"{file.name}: {file.read_bytes()!r}")
    return 1 if run.returncode else 0


def _run_guided(arguments: list[str]) -> None:
    import atheris

    with atheris.instrument_imports(include=["busload_shared", "busload_worker", "tests.hostile.fuzz_target"]):
        from tests.hostile.fuzz_target import try_all
    atheris.Setup([sys.argv[0], *arguments], try_all)
    atheris.Fuzz()


def _unguided(seconds: float) -> int:
    from hypothesis import HealthCheck, given, settings
    from hypothesis import strategies as st
    from tests.hostile.fuzz_target import try_all
    from tests.hostile.strategies import elements, payloads

    end, tried = time.monotonic() + seconds, 0

    @settings(max_examples=200, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(payloads() | elements().map(lambda element: element[0]) | st.binary(max_size=300))
    def some(data: bytes) -> None:
        nonlocal tried
        tried += 1
        try_all(data)

    for seed in seeds():
        try_all(seed)
    while time.monotonic() < end:
        some()
    print(f"{tried} inputs, unguided (pip install atheris for a fuzzer that is guided by coverage)")
    return 0


def main(arguments: list[str]) -> int:
    """The exit status."""
    if arguments[:1] == ["--guided"]:
        _run_guided(arguments[1:])
    parser = argparse.ArgumentParser(description="Fuzz all that reads bytes of strangers.")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--unguided", action="store_true", help="with Hypothesis, even if atheris is there")
    parser.add_argument("--replay", type=Path, help="run the bytes of this file only")
    given: Any = parser.parse_args(arguments)
    if given.replay:
        from tests.hostile.fuzz_target import try_all

        try_all(given.replay.read_bytes())
        return 0
    if given.unguided or importlib.util.find_spec("atheris") is None:
        return _unguided(given.seconds)
    with tempfile.TemporaryDirectory(prefix="busload-fuzz-") as folder:
        return _guided(given.seconds, Path(folder))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
