"""One frame of `busload top`: queues, workers, buses."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..operating.watching import Bus, Frame
from .queue_view import workers_table
from .shown import age

_TRIGGER_STYLES = {"full": "green", "timeout": "yellow", "drain": "magenta", "retry": "red"}
_WIDEST_BAR = 16
_FIXED_LINES = 12


def top_picture(frames: Sequence[Frame], *, where: str, note: str, height: int) -> RenderableType:
    """All of it, no higher than `height` lines."""
    workers = [worker for frame in frames for worker in frame.info.workers]
    head = Text("busload top", style="bold")
    head.append(f"  {where}  {datetime.now():%H:%M:%S}  {note}", style="dim")
    head.no_wrap, head.overflow = True, "ellipsis"
    room = max(3, height - _FIXED_LINES - 2 * len(frames))
    shown = workers[: max(2, room // 2)]
    parts: list[RenderableType] = [head, Text(), _queues(frames), Text(), _rates(frames), Text()]
    if workers:
        parts.append(workers_table(shown))
        if len(shown) < len(workers):
            parts.append(Text(f"and {len(workers) - len(shown)} more workers", style="dim"))
    else:
        parts.append(Text("no worker is up: start one with busload-worker", style="yellow"))
    buses = sorted((bus for frame in frames for bus in frame.buses), key=lambda bus: -bus.batch.claimed_ms)
    seats = {worker.name: worker.max_batch_size for worker in workers}
    parts += [Text(), _buses(buses[: max(3, room - len(shown))], seats)]
    return Group(*parts)


def _queues(frames: Sequence[Frame]) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("queue", no_wrap=True, overflow="ellipsis", max_width=16)
    for name in ("waiting", "oldest", "in flight", "retry", "dead", "boards in"):
        table.add_column(name, justify="right", no_wrap=True, min_width=len(name))
    for frame in frames:
        info = frame.info
        wait_s = info.expected_wait_s
        table.add_row(
            Text(info.queue),
            str(info.waiting),
            age(info.oldest_waiting_ms),
            str(info.inflight),
            str(info.retry),
            Text(str(info.dead), style="red" if info.dead else ""),
            "-" if wait_s is None else age(wait_s * 1000),
        )
    return table


def _rates(frames: Sequence[Frame]) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("per s, last 10 s", no_wrap=True, overflow="ellipsis", max_width=16)
    for name in ("answers", "failed", "buses", "rows/bus", "fill", "wait p50", "longest"):
        table.add_column(name, justify="right", no_wrap=True, min_width=len(name))
    for frame in frames:
        table.add_row(
            Text(frame.info.queue),
            _number(frame.answered_per_s),
            Text(_number(frame.failed_per_s), style="red" if frame.failed_per_s else ""),
            _number(frame.batches_per_s),
            _number(frame.mean_size),
            "-" if frame.fill is None else f"{frame.fill:.0%}",
            age(frame.waited_p50_ms),
            age(frame.waited_max_ms),
        )
    return table


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _buses(buses: Sequence[Bus], seats: dict[str, int]) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("left at", no_wrap=True)
    table.add_column("bus", no_wrap=True)
    table.add_column("worker", no_wrap=True, overflow="ellipsis", max_width=16)
    table.add_column("because", no_wrap=True)
    table.add_column("seats", no_wrap=True)
    table.add_column("waited", justify="right", no_wrap=True)
    table.add_column("out", justify="right", no_wrap=True)
    for bus in buses:
        batch = bus.batch
        style = "dim" if bus.is_back else ""
        table.add_row(
            f"{datetime.fromtimestamp(batch.claimed_ms / 1000):%H:%M:%S}",
            Text(batch.batch[-8:]),
            Text(batch.worker),
            Text(batch.trigger, style=_TRIGGER_STYLES.get(batch.trigger, "")),
            _bar(bus, seats.get(batch.worker, 0)),
            age(batch.waited_ms),
            ("back after " if bus.is_back else "") + age(bus.out_ms),
            style=style,
        )
    return table


def _bar(bus: Bus, seats: int) -> Text:
    """A mark for each seat: filled for a row that is answered, hollow for one that runs, a dot for nobody."""
    size, bar = bus.batch.size, Text()
    answered = size if bus.is_back else max(0, size - bus.batch.left)
    if max(size, seats) <= _WIDEST_BAR:
        bar.append("●" * answered, style="green")
        bar.append("○" * (size - answered), style="yellow")
        bar.append("·" * max(0, seats - size) + " ", style="dim")
    return bar.append(f"{size}/{seats}" if seats else str(size))
