"""The demo's closing words: the summary as people read it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .summary import OneByOne, Summary
from .view import seconds

_SHOWN_FAULTS = 10


def show_summary(
    console: Console, summary: Summary, alone: OneByOne | None, *, seats: int, wrong: Sequence[str]
) -> None:
    """Print the numbers, and what went wrong if something did."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold cyan", no_wrap=True)
    table.add_column()
    for name, text in _lines(summary, alone, seats):
        table.add_row(name, text)
    console.print()
    console.print(table, highlight=False)
    for fault in wrong[:_SHOWN_FAULTS]:
        console.print(Text(f"✗ {fault}", style="red"))
    if wrong:
        console.print(Text(f"{len(wrong)} went wrong.", style="bold red"))
    else:
        console.print(Text(f"✓ All {summary.requests} requests came back.", style="bold green"))


def _lines(summary: Summary, alone: OneByOne | None, seats: int) -> Iterator[tuple[str, str]]:
    yield "Requests", f"{summary.requests} answered, {summary.tokens} new tokens"
    triggers = ", ".join(f"{count} {trigger}" for trigger, count in sorted(summary.by_trigger.items()))
    yield "Batches", f"{summary.batches} ({triggers}), {summary.mean_size:.1f} of {seats} seats taken on average"
    yield "Speed", f"{summary.tokens_per_s:.0f} tokens/s while batches ran ({seconds(summary.run_ms)})"
    yield "Latency", f"p50 {seconds(summary.p50_ms)}, p99 {seconds(summary.p99_ms)}, from enqueue to answer"
    yield "Held", _held(summary)
    if alone is not None:
        yield (
            "One by one",
            f"{seconds(alone.run_ms)} instead of {seconds(summary.run_ms)}: {alone.run_ms / summary.run_ms:.1f} times "
            f"as long (scaled by tokens from {alone.sample} of {summary.requests}, run alone)",
        )


def _held(summary: Summary) -> str:
    was, would = summary.was_held, summary.would_be_held
    if was.most_ms >= 1:
        return f"{seconds(was.mean_ms)} on average, {seconds(was.most_ms)} at most, by longer rows of the same batch"
    return (
        "never: each row was released at its own last token. Released with its whole batch, it would have been held "
        f"{seconds(would.mean_ms)} on average, {seconds(would.most_ms)} at most"
    )
