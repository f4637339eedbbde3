"""A real `busload-gateway` process for tests, with its log."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

START_S = 60.0


class GatewayProcess:
    """Started with settings given as keywords, on a free port; killed at the latest by `close`."""

    def __init__(self, redis_url: str, **settings: Any) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="busload-gateway-")
        self.folder = Path(self._folder.name)
        self._log = self.folder / "log"
        defaults = {"redis_url": redis_url, "port": 0, "patience_s": 1}
        environment = {k: v for k, v in os.environ.items() if not k.startswith("BUSLOAD_")}
        named = {f"BUSLOAD_GATEWAY_{name.upper()}": str(value) for name, value in (defaults | settings).items()}
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "busload.gateway"], stderr=log, stdout=log, env=environment | named
            )
        self.url = ""

    def listening(self) -> GatewayProcess:
        """Wait until it listens."""
        give_up = time.monotonic() + START_S
        while (found := re.search(r"listening on (http://[\d.:]+)", self.log())) is None:
            assert self.process.poll() is None, self.log()
            assert time.monotonic() < give_up, f"not within {START_S} s: the gateway listens"
            time.sleep(0.02)
        self.url = found.group(1)
        return self

    def log(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def lines(self, message: str) -> list[dict[str, Any]]:
        """The log lines with this message."""
        lines = [json.loads(line) for line in self.log().splitlines() if line.startswith("{")]
        return [line for line in lines if line["message"].startswith(message)]

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ended(self, *, timeout_s: float = 30.0) -> int:
        """Wait for its end. Returns the exit code."""
        return self.process.wait(timeout=timeout_s)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._folder.cleanup()
