"""What the benchmarks share: a Redis and a worker of their own, the machine's description, medians, a JSON file."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import redis

HERE = Path(__file__).parent
OUT = HERE.parent.parent / "bench-results"


@contextlib.contextmanager
def own_redis() -> Iterator[str]:
    """A redis-server in memory on a free loopback port; yields its URL."""
    server = shutil.which("redis-server")
    if server is None:
        sys.exit("redis-server is not on the PATH: install Redis 6.2 or newer (Debian, Ubuntu: redis-server)")
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="busload-bench-") as folder:
        words = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", folder]
        process = subprocess.Popen([server, *words], stdout=subprocess.DEVNULL)
        try:
            client = redis.Redis(port=port)
            for _ in range(500):
                with contextlib.suppress(redis.ConnectionError):
                    if client.ping():
                        break
                time.sleep(0.01)
            client.close()
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            process.terminate()
            process.wait()


@contextlib.contextmanager
def own_worker(url: str, **settings: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A `busload-worker` process with these settings, ready."""
    with tempfile.TemporaryDirectory(prefix="busload-bench-") as folder:
        ready, log = Path(folder) / "ready", Path(folder) / "log"
        defaults = {"redis_url": url, "engine": "fake", "ready_file": ready, "log_level": "INFO"}
        named = {f"BUSLOAD_{name.upper()}": str(value) for name, value in (defaults | settings).items()}
        with log.open("wb") as out:
            command = [sys.executable, "-m", "busload_worker"]
            process = subprocess.Popen(command, env=os.environ | named, stdout=out, stderr=out)
        try:
            while not ready.exists():
                if process.poll() is not None:
                    sys.exit("the worker does not start:\n" + log.read_text()[-2000:])
                time.sleep(0.05)
            yield process
        finally:
            process.terminate()
            process.wait(timeout=60)


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median and range."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def show(label: str, values: Sequence[float], unit: str) -> None:
    """One line of a report."""
    s = spread(values)
    print(f"  {label:<44} {s['median']:>12,.2f} {unit}   ({s['min']:,.2f} to {s['max']:,.2f}, n={len(values)})")


def machine() -> dict[str, Any]:
    """Where and on what this was measured."""
    cpu = next((line.partition(":")[2].strip() for line in _cpuinfo() if line.startswith("model name")), "?")
    packages = {name: version(name) for name in ("busload", "redis", "hiredis", "pydantic")}
    server = subprocess.run(["redis-server", "--version"], capture_output=True, text=True, check=False).stdout
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "system": platform.platform(),
        "redis_server": next((word[2:] for word in server.split() if word.startswith("v=")), "?"),
        **packages,
    }


def _cpuinfo() -> list[str]:
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def write(name: str, figures: dict[str, Any]) -> None:
    """Keep the figures with the machine they were measured on."""
    OUT.mkdir(exist_ok=True)
    path = OUT / f"{name}.json"
    path.write_text(json.dumps({"machine": machine(), "at": time.time(), **figures}, indent=2) + "\n")
    print(f"  written to {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")
