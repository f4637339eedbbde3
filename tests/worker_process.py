"""A real `busload-worker` process for tests, with its log."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.waiting import wait_until


class WorkerProcess:
    """Started with settings given as keywords; killed at the latest by `close`. `more_environment` may lead to other
    code than ours."""

    def __init__(
        self, redis_url: str, *, more_environment: Mapping[str, str] = MappingProxyType({}), **settings: Any
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="busload-worker-")
        self.ready_file = Path(self._folder.name) / "ready"
        self._log = Path(self._folder.name) / "log"
        defaults = {"redis_url": redis_url, "engine": "fake", "max_wait_ms": 20, "ready_file": self.ready_file}
        environment = {k: v for k, v in os.environ.items() if not k.startswith("BUSLOAD_")}
        environment |= {f"BUSLOAD_{name.upper()}": str(value) for name, value in (defaults | settings).items()}
        environment |= more_environment
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "busload_worker"], stderr=log, stdout=log, env=environment
            )

    async def ready(self) -> WorkerProcess:
        async def there() -> bool:
            assert self.process.poll() is None, self.log()
            return self.ready_file.exists()

        await wait_until(there, timeout_s=30, what="the worker process is ready")
        return self

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def ended(self, *, timeout_s: float = 20) -> int:
        """Wait for its end. Returns the exit code."""

        async def over() -> bool:
            return self.process.poll() is not None

        await wait_until(over, timeout_s=timeout_s, what="the worker process has ended")
        return self.process.returncode

    def log(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def lines(self, message: str) -> list[dict[str, Any]]:
        """The JSON log lines with this message."""
        lines = [json.loads(line) for line in self.log().splitlines() if line.startswith("{")]
        return [line for line in lines if line["message"].startswith(message)]

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()
        self._folder.cleanup()
