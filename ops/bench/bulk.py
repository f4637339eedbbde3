"""How many lines a second `busload run` takes through one worker whose engine costs nothing, and in how much memory.

Command, Redis and worker are three processes. Each run is a process of its own, so that its CPU time and its largest
memory are its own; the time from its start to its end is counted, and what an empty file takes is told beside it. The
last command is given once more: it finds everything done.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import redis
from lab import own_redis, own_worker, write

TEXT = "x" * 400


def openai_line(number: int) -> dict[str, Any]:
    """A chat request of about 500 bytes."""
    body = {"model": "m", "messages": [{"role": "user", "content": TEXT}], "max_tokens": 16}
    return {"custom_id": f"request-{number}", "method": "POST", "url": "/v1/chat/completions", "body": body}


def plain_line(number: int) -> dict[str, Any]:
    """A prompt of about 500 bytes."""
    return {"id": f"request-{number}", "prompt": TEXT, "max_tokens": 16}


LINES: dict[str, Callable[[int], dict[str, Any]]] = {"openai": openai_line, "jsonl": plain_line}


def measure(url: str, source: Path, *, in_flight: int) -> dict[str, float]:
    """One run of the command over a file."""
    words = ["run", str(source), "-o", str(source.with_suffix(".out.jsonl")), "--json", "--in-flight", str(in_flight)]
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "busload", *words, "--redis-url", url], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    counts = json.loads(process.stdout.read())
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, counts
    seconds = time.perf_counter() - began
    cpu_s = used.ru_utime + used.ru_stime
    return {"lines": counts["read"], "seconds": seconds, "cpu_s": cpu_s, "largest_mib": used.ru_maxrss / 1024}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=300_000)
    parser.add_argument("--in-flight", type=int, default=512)
    parser.add_argument("--max-batch-size", type=int, default=32)
    options = parser.parse_args()
    figures: dict[str, Any] = {"lines": options.lines, "in_flight": options.in_flight}
    for kind, line in LINES.items():
        with tempfile.TemporaryDirectory(prefix="busload-bench-") as folder, own_redis() as url:
            source, empty = Path(folder) / "in.jsonl", Path(folder) / "empty.jsonl"
            empty.touch()
            with source.open("w", encoding="utf-8") as file:
                file.writelines(json.dumps(line(number)) + "\n" for number in range(options.lines))
            with own_worker(url, max_batch_size=options.max_batch_size, max_wait_ms=10, log_level="WARNING"):
                nothing = measure(url, empty, in_flight=options.in_flight)
                first = measure(url, source, in_flight=options.in_flight)
                again = measure(url, source, in_flight=options.in_flight)
            redis.Redis.from_url(url).flushall()
        figures[kind] = {"empty": nothing, "first": first, "again": again}
        rate = first["lines"] / (first["seconds"] - nothing["seconds"])
        cpu_us = (first["cpu_s"] - nothing["cpu_s"]) / first["lines"] * 1e6
        print(
            f"  {kind:<8} {rate:>9,.0f} lines/s  {cpu_us:6.1f} us CPU a line  {first['largest_mib']:6.1f} MiB at most"
        )
        print(f"  {'':<8} again, all done before: {again['seconds']:.1f} s, {again['largest_mib']:.1f} MiB")
    write("bulk", figures)


if __name__ == "__main__":
    main()
