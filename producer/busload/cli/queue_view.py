"""How a queue and its workers read on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from busload_shared.replies import QueueInfo, WorkerInfo

from .shown import age, counted

_STATES = {"ready": "green", "starting": "yellow", "restarting": "yellow", "draining": "magenta", "broken": "red"}


def queue_picture(info: QueueInfo) -> RenderableType:
    """Depths, ages, workers and counters."""
    parts: list[RenderableType] = [Text(info.queue, style="bold"), _depths(info)]
    if info.workers:
        parts += [Text(), workers_table(info.workers)]
    else:
        parts.append(Text("no worker is up: start one with busload-worker", style="yellow"))
    if info.counters:
        counts = ", ".join(f"{count} {name}" for name, count in sorted(info.counters.items()))
        parts += [Text(), Text(f"since its first day: {counts}", style="dim")]
    return Group(*parts)


def _depths(info: QueueInfo) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    wait_s = info.expected_wait_s
    expected = f"a newcomer boards in about {age(wait_s * 1000)}" if wait_s is not None else ""
    waits = (_oldest(info.oldest_waiting_ms, "the oldest for"), expected)
    table.add_row("waiting", str(info.waiting), ", ".join(filter(None, waits)))
    table.add_row("retry", str(info.retry), _oldest(info.oldest_retry_ms, "groups of suspects, the oldest came"))
    leases = counted(info.leases, "lease")
    table.add_row("in flight", str(info.inflight), f"{leases}{_oldest(info.oldest_inflight_ms, ', the oldest for')}")
    dead = "see busload dead list" if info.dead else ""
    table.add_row("dead letters", Text(str(info.dead), style="red" if info.dead else ""), dead)
    return table


def _oldest(ms: float | None, words: str) -> str:
    return "" if ms is None else f"{words} {age(ms)}"


def workers_table(workers: Sequence[WorkerInfo]) -> Table:
    """Each worker, what it is and what it runs."""
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("worker", overflow="ellipsis", no_wrap=True, max_width=24)
    for name in ("state", "runs"):
        table.add_column(name, no_wrap=True)
    for name in ("seats", "rows/s", "batches", "rows", "troubles"):
        table.add_column(name, justify="right", no_wrap=True)
    for worker in sorted(workers, key=lambda each: each.name):
        table.add_row(
            Text(worker.name),
            Text(worker.state, style=_STATES.get(worker.state, "")),
            Text(worker.batch[-8:] if worker.batch else "-"),
            f"{worker.batch_size}/{worker.max_batch_size}",
            f"{worker.rows_per_s:.1f}" if worker.rows_per_s else "-",
            str(worker.batches_done),
            str(worker.rows_done),
            _troubles(worker),
        )
    return table


def _troubles(worker: WorkerInfo) -> Text:
    """Restarts of its engine, leases it lost, batches that were too much for its memory."""
    count = worker.engine_restarts + worker.leases_lost + worker.out_of_memory
    return Text(str(count), style="red" if count else "")
