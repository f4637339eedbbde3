"""`busload bench`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

import typer
from pydantic import TypeAdapter
from rich.table import Table

from busload_shared.errors import ResultTimeout
from busload_shared.replies import QueueInfo

from ..async_client import AsyncClient
from ..demo.view import seconds
from ..operating.load import Load, Run, put_load
from ..operating.load_report import LoadReport, Quantiles, report_on
from .options import QUEUE, REDIS_URL, AsJson, QueueName, RedisUrl, TimeoutS, partitions
from .output import BAD_NEWS, DONE, PATIENCE_S, Output, perform
from .progress import Counter, counting
from .shown import counted

Requests = Annotated[int, typer.Option(min=1, max=1_000_000, help="How many in all")]
Concurrency = Annotated[int, typer.Option(min=1, max=10_000, help="How many are out at once")]
Rate = Annotated[float | None, typer.Option(min=0.001, help="Instead: so many a second, however many are out")]
Prompt = Annotated[str, typer.Option(help="The prompt of each")]
MaxTokens = Annotated[int, typer.Option(min=1, help="New tokens of each at most")]


def bench(  # noqa: PLR0913, PLR0917 - each is an option of the command
    requests: Requests = 200,
    concurrency: Concurrency = 16,
    rate: Rate = None,
    prompt: Prompt = "Write one sentence about a bus.",
    max_tokens: MaxTokens = 64,
    timeout_s: TimeoutS = None,
    redis_url: RedisUrl = REDIS_URL,
    queue: QueueName = QUEUE,
    as_json: AsJson = False,
) -> None:
    """Put a small load on your own queue and workers, and show throughput, latency, fill and batch sizes.

    It uses the real workers, and stands in line with everybody else's requests. Ctrl-C cancels what is out. Ends with 1
    if a request failed or got no result.

        busload bench --requests 500 --concurrency 64 --max-tokens 128

        busload bench --rate 20 --requests 600 --json
    """
    output = Output("busload bench", as_json)
    load = Load(requests, concurrency, rate, prompt, max_tokens)

    async def work() -> int:
        async with AsyncClient(redis_url, queue=queue, partitions=partitions.get(), patience_s=PATIENCE_S) as client:
            async with output.patient("asking Redis"):
                info = await client.queue_info()
            _warn(output, info, requests)
            with counting(output, "answered", total=requests) as counter:
                run = await _within(timeout_s, put_load(client, load, _teller(counter, load)))
        return _show(output, report_on(run, seats=_seats(info)))

    perform(output, work, interrupted="what was out is cancelled")


async def _within(timeout_s: float | None, work: Coroutine[Any, Any, Run]) -> Run:
    try:
        return await asyncio.wait_for(work, timeout_s)
    except TimeoutError:
        raise ResultTimeout(f"not all were answered within {timeout_s:g} s; what was out is cancelled") from None


def _warn(output: Output, info: QueueInfo, requests: int) -> None:
    ready = [worker for worker in info.workers if worker.state == "ready"]
    output.note(
        f"{counted(requests, 'real request')} for {counted(len(ready), 'ready worker')} of {info.queue}", "yellow"
    )
    if not ready:
        output.note("no worker is ready: nothing is answered until one is started", "yellow")
    if info.waiting:
        output.note(f"{counted(info.waiting, 'request')} of others before them", "yellow")


def _teller(counter: Counter, load: Load) -> Callable[[Run], None]:
    def tell(run: Run) -> None:
        rate = run.over / run.elapsed_s
        eta = f", about {(load.requests - run.over) / rate:.0f} s more" if rate else ""
        counter.update(run.over, detail=f"{rate:.1f}/s{eta}")

    return tell


def _seats(info: QueueInfo) -> int:
    """Of the ready workers' largest batch."""
    return max((worker.max_batch_size for worker in info.workers), default=0)


def _show(output: Output, report: LoadReport) -> int:
    code = BAD_NEWS if report.failed else DONE
    if output.as_json:
        output.json_line(TypeAdapter(LoadReport).dump_python(report, mode="json"))
        return code
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="cyan", no_wrap=True)
    table.add_column()
    for name, text in _lines(report):
        table.add_row(name, text)
    output.out.print(table)
    for complaint in report.complaints:
        output.note(complaint, "red")
    return code


def _lines(report: LoadReport) -> list[tuple[str, str]]:
    fill = "" if report.fill is None else f", {report.fill:.0%} of the seats"
    sizes = ", ".join(f"{count} with {size} rows" for size, count in _largest_first(report.sizes))
    triggers = ", ".join(f"{count} {name}" for name, count in sorted(report.triggers.items()))
    return [
        ("requests", f"{report.succeeded} succeeded, {report.failed} failed, in {report.elapsed_s:.1f} s"),
        ("throughput", f"{report.requests_per_s:.1f} requests/s, {report.tokens_per_s:.0f} new tokens/s"),
        ("latency", _quantiles(report.latency)),
        ("  waited", _quantiles(report.waited)),
        ("  ran", _quantiles(report.run)),
        ("batches", f"{report.batches} of {report.mean_size:.1f} rows on average{fill}"),
        ("  sizes", sizes or "-"),
        ("  left", triggers or "-"),
    ]


def _largest_first(sizes: dict[int, int]) -> list[tuple[int, int]]:
    """The eight sizes that were most common, by size."""
    common = sorted(sizes.items(), key=lambda pair: -pair[1])[:8]
    return sorted(common, reverse=True)


def _quantiles(times: Quantiles) -> str:
    named = (("p50", times.p50), ("p90", times.p90), ("p99", times.p99), ("max", times.most))
    return ", ".join(f"{name} {seconds(value)}" for name, value in named)
