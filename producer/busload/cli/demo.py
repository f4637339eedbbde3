"""`busload demo`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Engine(StrEnum):
    """Engines the demo can start."""

    vllm = "vllm"
    fake = "fake"


def demo(  # noqa: PLR0913, PLR0917 - each is an option of the command
    prompts: Annotated[
        Path | None,
        typer.Option(help="Your own requests: a prompt a line, or JSON objects with prompt or messages, max_tokens, …"),
    ] = None,
    model: Annotated[
        Path | None, typer.Option(exists=True, help="Your own model's folder instead of SmolLM2-135M-Instruct")
    ] = None,
    engine: Annotated[
        Engine, typer.Option(help="fake needs no model: it writes nonsense at a steady pace")
    ] = Engine.vllm,
    max_batch_size: Annotated[int, typer.Option(min=1, max=1024, help="Seats in a bus")] = 8,
    max_wait_ms: Annotated[float, typer.Option(min=1, help="Longest the oldest waits for more, ms")] = 300,
    alone: Annotated[int, typer.Option(min=0, help="Requests to run once more one by one, for comparison")] = 4,
    seed: Annotated[int, typer.Option(help="Decides when requests arrive")] = 7,
    answer_s: Annotated[float, typer.Option(min=1, help="Give up when answers take longer, s")] = 900,
    keep_log: Annotated[bool, typer.Option("--keep-log", help="Keep the worker's log in busload-demo.log")] = False,
) -> None:
    """Serve a few dozen questions on a real model and show it; exits with 0 only if every one came back.

    Starts its own Redis and worker, and leaves nothing behind.
    """
    from rich.console import Console

    from ..demo.run import DemoOptions, run_demo

    options = DemoOptions(
        engine=engine.value,
        model=model,
        prompts=prompts,
        max_batch_size=max_batch_size,
        max_wait_ms=max_wait_ms,
        alone=alone,
        seed=seed,
        answer_s=answer_s,
        keep_log=keep_log,
    )
    raise typer.Exit(run_demo(options, Console()))
