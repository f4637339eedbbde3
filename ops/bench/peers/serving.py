"""Start a peer's server processes, wait until they serve, and end every one of them by its number."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from .install import installed

SERVERS = Path(__file__).parent / "servers"
START_S = 120.0
COUNTS_BYTES = 64


@dataclass(frozen=True)
class Work:
    """The handler's cost and the batching, the same for all."""

    base_ms: float = 0.0
    item_ms: float = 0.0
    batch: int = 32
    window_ms: int = 10


class CannotStart(Exception):
    """A server ended or did not serve in time; the text is the end of its log."""


@dataclass
class Server:
    """A running peer: how to reach it, with which Python its client runs, and its processes."""

    name: str
    style: str
    python: str
    environment: dict[str, str]
    folder: Path
    address: str = ""
    roots: list[subprocess.Popen[bytes]] = field(default_factory=list)
    seen: dict[int, psutil.Process] = field(default_factory=dict)

    @property
    def counts(self) -> Path:
        return Path(self.environment["PEERS_COUNTS"])

    def processes(self) -> list[int]:
        """Numbers of all its processes that live; each is remembered, for the end."""
        for root in self.roots:
            with contextlib.suppress(psutil.NoSuchProcess):
                process = psutil.Process(root.pid)
                for one in (process, *process.children(recursive=True)):
                    self.seen[one.pid] = one
        return [pid for pid, process in self.seen.items() if process.is_running()]

    def start(self, command: list[str], **more: str) -> subprocess.Popen[bytes]:
        """A process in a session of its own, so that Ctrl-C reaches only the benchmark, which then ends it."""
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                command,
                env=self.environment | more,
                cwd=SERVERS,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self.roots.append(process)
        return process

    def wait(self, ready: Path | None) -> None:
        """Until the file is there, or the port answers. Raises CannotStart."""
        until = time.monotonic() + START_S
        while not (ready.is_file() if ready else _answers(self.address)):
            if self.roots[-1].poll() is not None or time.monotonic() > until:
                raise CannotStart((self.folder / "log").read_text(errors="replace")[-1500:])
            time.sleep(0.05)

    def stop(self) -> None:
        """Ask every root to end, and end what is left of all that was ever seen."""
        self.processes()
        for root in self.roots:
            root.terminate()
        psutil.wait_procs(list(self.seen.values()), timeout=8)
        for process in self.seen.values():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        for root in self.roots:
            root.wait(timeout=10)


def _answers(address: str) -> bool:
    host, _, port = address.partition(":")
    with socket.socket() as sock:
        return sock.connect_ex((host, int(port))) == 0


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@contextlib.contextmanager
def serving(name: str, work: Work) -> Iterator[Server]:
    """The peer of that name, serving. Raises CannotInstall and CannotStart."""
    with tempfile.TemporaryDirectory(prefix="busload-peers-") as text:
        folder = Path(text)
        counts = folder / "counts"
        counts.write_bytes(bytes(COUNTS_BYTES))
        environment = os.environ | {
            "PEERS_BASE_MS": str(work.base_ms),
            "PEERS_ITEM_MS": str(work.item_ms),
            "PEERS_BATCH": str(work.batch),
            "PEERS_WINDOW_MS": str(work.window_ms),
            "PEERS_COUNTS": str(counts),
        }
        server = Server(name, ROWS[name].style, sys.executable, environment, folder)
        try:
            ROWS[name].start(server, work)
            yield server
        finally:
            server.stop()


def _over_http(server: Server, _: Work) -> None:
    """Mosec, LitServe, BentoML, and batched's line server: a port each."""
    port, peer = free_port(), server.name.removesuffix("-aiohttp")
    server.address = f"127.0.0.1:{port}"
    server.python = installed(peer)
    script = str(SERVERS / f"{peer}_server.py")
    words = {
        "mosec": [script, "--address", "127.0.0.1", "--port", str(port), "--timeout", "120000", "--log-level", "error"],
        "bentoml": ["-m", "bentoml", "serve", "bentoml_server:Peer", "--host", "127.0.0.1", "--port", str(port)],
    }.get(peer, [script, str(port)])
    server.start([server.python, *words], BENTOML_DO_NOT_TRACK="True")
    server.wait(None)


def _ray(server: Server, _: Work) -> None:
    server.python = installed("ray")
    server.environment |= {
        "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "disabled",
    }
    ready = server.folder / "address"
    server.start([server.python, str(SERVERS / "ray_server.py"), str(ready)])
    server.wait(ready)
    server.address = ready.read_text()


def _redis(server: Server, *, fsync: bool) -> None:
    port = free_port()
    durable = ["--appendonly", "yes", "--appendfsync", "everysec"] if fsync else ["--appendonly", "no"]
    words = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(server.folder), *durable]
    server.address = f"127.0.0.1:{port}"
    server.start(["redis-server", *words])
    server.wait(None)
    server.address = f"redis://{server.address}/0"


def _celery(server: Server, _: Work) -> None:
    server.python = installed("celery-batches")
    _redis(server, fsync=False)
    ready = server.folder / "ready"
    server.environment |= {"PEERS_REDIS": server.address, "PEERS_READY": str(ready)}
    words = ["-m", "celery", "-A", "celery_batches_app", "worker", "--pool", "prefork", "--concurrency", "1"]
    server.start([server.python, *words, "--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "ERROR"])
    server.wait(ready)


def _busload(server: Server, work: Work, *, fsync: bool = False) -> None:
    """Its fake engine costs the same: so much a batch and so much a request, in the worker's process."""
    _redis(server, fsync=fsync)
    ready = server.folder / "ready"
    server.environment |= {
        "BUSLOAD_REDIS_URL": server.address,
        "BUSLOAD_ENGINE": "fake",
        "BUSLOAD_FAKE_OVERHEAD_MS": str(work.base_ms),
        "BUSLOAD_FAKE_PER_REQUEST_MS": str(work.item_ms),
        "BUSLOAD_MAX_BATCH_SIZE": str(work.batch),
        "BUSLOAD_MAX_WAIT_MS": str(work.window_ms),
        "BUSLOAD_READY_FILE": str(ready),
        "BUSLOAD_LOG_LEVEL": "WARNING",
    }
    start_busload_worker(server)


def start_busload_worker(server: Server) -> None:
    """Also the second one, when the first was killed."""
    ready = Path(server.environment["BUSLOAD_READY_FILE"])
    ready.unlink(missing_ok=True)
    server.start([sys.executable, "-m", "busload_worker"])
    server.wait(ready)


def _busload_durable(server: Server, work: Work) -> None:
    _busload(server, work, fsync=True)


def _in_process(server: Server, _: Work) -> None:
    server.python, server.address = installed("batched"), "none"


LIBRARY, BARE, IN_PROCESS = "library", "bare wire", "in process"


@dataclass(frozen=True)
class Row:
    """What can be measured: how its client speaks to it, what kind of a client that is, and how it is started."""

    style: str
    client: str
    start: Callable[[Server, Work], None]


ROWS = {
    "busload": Row("busload", LIBRARY, _busload),
    "busload-aof": Row("busload", LIBRARY, _busload_durable),
    "busload-raw": Row("busload-raw", BARE, _busload),
    "mosec-aiohttp": Row("mosec-aiohttp", LIBRARY, _over_http),
    "mosec": Row("mosec", BARE, _over_http),
    "ray": Row("ray", LIBRARY, _ray),
    "bentoml-aiohttp": Row("bentoml-aiohttp", LIBRARY, _over_http),
    "bentoml": Row("bentoml", BARE, _over_http),
    "litserve-aiohttp": Row("litserve-aiohttp", LIBRARY, _over_http),
    "litserve": Row("litserve", BARE, _over_http),
    "celery-batches": Row("celery", LIBRARY, _celery),
    "batched": Row("line", BARE, _over_http),
    "batched-in-process": Row("in-process", IN_PROCESS, _in_process),
}
"""By name. A library is what a Python backend would call; a bare wire writes bytes and looks for the answer's end."""
