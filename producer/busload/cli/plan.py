"""`busload plan`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def plan(  # noqa: PLR0913, PLR0917 - each is an option of the command
    target_p99_ms: Annotated[float, typer.Option(min=0.001, help="Latency that 99 of 100 requests must keep, ms")],
    curve: Annotated[str | None, typer.Option(help="A batch's time, ms: overhead,prompt token,step,token")] = None,
    redis: Annotated[str | None, typer.Option(help="Or take the curve that the workers on this Redis learned")] = None,
    queue: Annotated[str, typer.Option(help="Their queue")] = "busload:default",
    rate: Annotated[float | None, typer.Option(min=0.000001, help="Requests per second, at random times")] = None,
    trace: Annotated[
        Path | None, typer.Option(help="Or a file: arrival in s, and new tokens if known, on each line")
    ] = None,
    length_law: Annotated[
        str | None,
        typer.Option(
            help="New tokens: constant:N, exponential:MEAN, lognormal:MEDIAN:SIGMA, bimodal:SHORT:LONG:SHARE, file:PATH"
        ),
    ] = None,
    predictions: Annotated[str, typer.Option(help="Of lengths: oracle, learned, noisy:LOG_ERROR")] = "noisy:0.5",
    prompt_tokens: Annotated[int, typer.Option(min=0, help="Tokens of a prompt")] = 100,
    max_tokens: Annotated[int, typer.Option(min=1, help="New tokens at most")] = 2048,
    max_batch_tokens: Annotated[
        int | None, typer.Option(min=1, help="Prompt and new tokens in a batch at most")
    ] = None,
    sizes: Annotated[str, typer.Option(help="Batch sizes to try")] = "1,4,8,16,32,64,128",
    waits: Annotated[str, typer.Option(help="Waits to try, ms, or auto")] = "0,20,100,auto",
    orders: Annotated[str, typer.Option(help="Orders to try")] = "fifo,length",
    max_workers: Annotated[int, typer.Option(min=1, max=100_000, help="Workers you can have at most")] = 1000,
    price_per_hour: Annotated[float, typer.Option(min=0, help="What a worker costs an hour; adds a column")] = 0,
    requests: Annotated[int, typer.Option(min=100, help="Requests of a run at least; more are more exact")] = 20_000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same answer")] = 1,
    out: Annotated[Path | None, typer.Option(help="Folder for plots: latency by load, fill, Pareto front")] = None,
    top: Annotated[int, typer.Option(min=1, help="Lines of the table")] = 12,
) -> None:
    """Find the batch size, wait, order and fewest workers that meet a latency target, by simulation.

    A GPU that takes 10 ms a batch, 20 ms a step, 0.05 ms a row and step; 30 requests/s:

        busload plan --curve 10,0.02,20,0.05 --rate 30 --length-law lognormal:74:1 --target-p99-ms 60000

    What your workers have learned, your own arrivals, and plots:

        busload plan --redis redis://127.0.0.1:6379 --trace arrivals.csv --target-p99-ms 5000 --out plots

    Exits with 0 if a plan meets the target, 1 if none does, 2 if it was asked wrongly, 3 if no curve is to be had.
    """
    options = dict(locals())
    from rich.console import Console

    from ..plan.run import PlanOptions, run_plan

    raise typer.Exit(run_plan(PlanOptions(**options), Console(), Console(stderr=True)))
