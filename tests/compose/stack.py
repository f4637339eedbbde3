"""The compose file's deployment on a real Docker engine, under a project name of its own, removed at the end."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

ROOT = Path(__file__).parents[2]
QUEUE = "busload:default"

SETTINGS = {
    "COMPOSE_PROFILES": "cpu",
    # ports that are free
    "BUSLOAD_PUBLISH_PORT": "0",
    "PROMETHEUS_PORT": "0",
    # four engines on two cores: small batches and caches, one thread each, on any core
    "BUSLOAD_MAX_BATCH_SIZE": "8",
    "BUSLOAD_VLLM_MAX_MODEL_LEN": "512",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    # a killed worker's batch is taken back soon
    "BUSLOAD_LEASE_S": "6",
    "REDIS_MAXMEMORY": "256mb",
    "REDIS_PASSWORD_OPERATOR": "an-operator-of-a-test",
}
KEPT = ("PATH", "HOME", "DOCKER_HOST", "TORCH_INDEX", "LANG")
"""Of this process's environment, beside all that is pip's: who runs the tests may have set anything."""


def tell(text: str) -> None:
    """Progress: a run takes minutes. `make test-compose` lets it through."""
    print(f"compose: {text}", file=sys.stderr, flush=True)


def wait_for(true: Callable[[], T], *, within_s: float, what: str) -> T:
    """Ask twice a second until the answer is truthy, and return it."""
    give_up = time.monotonic() + within_s
    while not (answer := true()):
        assert time.monotonic() < give_up, f"not within {within_s:g} s: {what}"
        time.sleep(0.5)
    return answer


def call(command: Sequence[str], *, env: Mapping[str, str], within_s: float = 120) -> str:
    """What the command printed. It may take `within_s` seconds; its words are shown when it fails."""
    done = subprocess.run(
        command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=within_s,
        check=False,
    )  # fmt: skip
    if done.returncode:
        said = (done.stdout + done.stderr)[-4000:]
        raise AssertionError(f"{' '.join(command)[:300]} ended with {done.returncode}:\n{said}")
    return done.stdout


class Stack:
    """One deployment. `command` is Compose as it is called here."""

    def __init__(self, command: Sequence[str], project: str, env_file: Path) -> None:
        """`env_file` stands for .env: a developer's own must not matter."""
        pips = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        own = {"COMPOSE_PROJECT_NAME": project, "REDIS_PORT": str(_free_port())}
        self.env = kept | pips | SETTINGS | building() | own
        self._compose = [*command, "--env-file", str(env_file)]
        self.project = project

    def compose(self, *words: str, within_s: float = 120) -> str:
        """Run Compose."""
        return call([*self._compose, *words], env=self.env, within_s=within_s)

    def docker(self, *words: str, within_s: float = 120) -> str:
        """Run docker."""
        return call(["docker", *words], env=self.env, within_s=within_s)

    def address(self, service: str, port: int) -> str:
        """Where a published port is: host:port."""
        return self.compose("port", service, str(port)).strip()

    def redis_url(self, user: str, database: int = 0) -> str:
        """Redis as this machine reaches it, as one of the compose file's users."""
        password = self.env.get(f"REDIS_PASSWORD_{user.upper()}", f"busload-{user}-development")
        return f"redis://{user}:{password}@{self.address('redis', 6379)}/{database}"

    def containers(self, service: str) -> list[str]:
        """The ids of a service's running containers."""
        label = f"label=com.docker.compose.service={service}"
        mine = f"label=com.docker.compose.project={self.project}"
        return self.docker("ps", "-q", "--no-trunc", "--filter", label, "--filter", mine).split()

    def inspect(self, thing: str) -> dict[str, Any]:
        """What Docker knows of a container or an image."""
        found: list[dict[str, Any]] = json.loads(self.docker("inspect", thing))
        return found[0]

    def is_ready(self, container: str) -> bool:
        """Whether the worker in it has its ready file."""
        check = ["docker", "exec", container, "test", "-e", "/tmp/busload-ready"]
        return subprocess.run(check, env=self.env, capture_output=True, timeout=30, check=False).returncode == 0

    def is_well(self, service: str) -> bool:
        """Whether all of a service's containers pass their health checks."""
        there = self.containers(service)
        return bool(there) and all(self.inspect(one)["State"]["Health"]["Status"] == "healthy" for one in there)

    def await_workers(self, count: int, *, within_s: float = 240) -> list[str]:
        """Wait until so many workers are there and all are ready. Returns their containers."""

        def ready() -> list[str]:
            there = self.containers("worker")
            return there if len(there) == count and all(map(self.is_ready, there)) else []

        return wait_for(ready, within_s=within_s, what=f"{count} workers are ready")

    def logs(self, service: str) -> str:
        """What a service's containers have said."""
        return self.compose("logs", "--no-color", "--tail", "25", service)

    def remove(self) -> None:
        """Take away containers, networks and volumes; images stay for the next time."""
        words = ["down", "--volumes", "--remove-orphans", "--timeout", "10"]
        self.compose("--profile", "celery", "--profile", "tools", *words)


def building() -> dict[str, str]:
    """What has images built by BuildKit, twice as fast: some clients need a plugin for it, and Compose 1.29 calls the
    first `docker` of the PATH. Empty where no client has it; then the old builder does it."""
    for folder in os.get_exec_path():
        docker = os.path.join(folder, "docker")
        if os.access(docker, os.X_OK) and _has_buildkit(docker):
            path = os.pathsep.join([folder, os.environ["PATH"]])
            return {"DOCKER_BUILDKIT": "1", "COMPOSE_DOCKER_CLI_BUILD": "1", "PATH": path}
    return {}


def _has_buildkit(docker: str) -> bool:
    version = _said([docker, "version", "--format", "{{.Client.Version}}"])
    return bool(_said([docker, "buildx", "version"])) or 18 < int(version.partition(".")[0] or 0) < 23


def _said(command: Sequence[str]) -> str:
    """What it printed; nothing when it failed."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    return "" if done.returncode else done.stdout.strip()


def _free_port() -> int:
    """Redis keeps its port over restarts, so a number is chosen here and not by Docker."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
