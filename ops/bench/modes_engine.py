"""The engines of the modes benchmark, all alike: a worker of its own for each mode, and the continuous one.

They live side by side and only one works at a time: an idle one costs memory only.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import lab

from busload_worker.smollm import smollm2_dtype

MAX_MODEL_LEN = 1024
KV_BYTES = 1 << 29
PROCESSOR = "modes_endings:EndAtSeed"
TEXTBOOK_WAIT_MS = 50.0
FOR_EVER_MS = 600_000.0


@dataclass(frozen=True, slots=True)
class Mode:
    """How a worker serves. `seats` of None is the benchmark's batch size."""

    name: str
    seats: int | None = None
    wait_ms: float | Literal["auto"] = TEXTBOOK_WAIT_MS
    release: Literal["batch", "row"] = "row"
    order: Literal["fifo", "length"] = "fifo"

    @property
    def queue(self) -> str:
        """The list of its worker."""
        return "modes:" + self.name.replace(" ", "-").replace("+", "and")

    def settings(self, size: int) -> dict[str, Any]:
        """The worker's settings, under their names."""
        return {
            "queue": self.queue,
            "max_batch_size": self.seats or size,
            "max_wait_ms": self.wait_ms,
            "release": self.release,
            "order": self.order,
        }


ONE = Mode("one by one", seats=1, release="batch")
STATIC = Mode("static", wait_ms=FOR_EVER_MS, release="batch")
TEXTBOOK = Mode("textbook", release="batch")
EARLY = Mode("early release")
LENGTH = Mode("early + length order", order="length")
AUTO = Mode("early + auto wait", wait_ms="auto")
ALL = Mode("all remedies", wait_ms="auto", order="length")
MODES = (ONE, STATIC, TEXTBOOK, EARLY, LENGTH, AUTO, ALL)


@contextlib.contextmanager
def workers(url: str, modes: Sequence[Mode], *, model: str, size: int) -> Iterator[None]:
    """A ready worker for each mode, until the end."""
    path = os.pathsep.join(filter(None, [str(lab.HERE), os.environ.get("PYTHONPATH", "")]))
    os.environ["PYTHONPATH"] = path  # the engines import modes_endings
    same = {
        "engine": "vllm",
        "model": model,
        "log_level": "WARNING",
        "vllm_max_model_len": MAX_MODEL_LEN,
        "vllm_dtype": smollm2_dtype(),
        "vllm_kv_cache_memory_bytes": KV_BYTES,
        "vllm_logits_processors": json.dumps([PROCESSOR]),
    }
    with contextlib.ExitStack() as stack:
        for started, mode in enumerate(modes, start=1):
            print(f"\r  starting workers: {started} of {len(modes)} ({mode.name}) ".ljust(60), end="", flush=True)
            settings = same | mode.settings(size)
            stack.enter_context(lab.own_worker(url, worker_name=mode.queue, **settings))
        print("\r" + " " * 60 + "\r", end="", flush=True)
        yield


class Continuous:
    """Bare vLLM in a process of its own."""

    def __init__(self, model: str, size: int) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="busload-bench-")
        self._log = Path(self._folder.name) / "log"
        command = [sys.executable, str(lab.HERE / "modes_continuous.py"), model, str(size)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        self._answer()

    def generate(self, requests: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """One `LLM.generate` over these: seconds, and for each its latency and its tokens."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(list(requests)) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            sys.exit("bare vLLM does not run:\n" + self._log.read_text()[-2000:])
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(timeout=60)
        self._folder.cleanup()
