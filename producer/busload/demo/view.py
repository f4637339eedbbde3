"""What the demo shows while it runs, and the words and numbers both of its faces share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from rich.console import Console
from rich.text import Text

from busload_shared.replies import QueueInfo
from busload_shared.request import Request
from busload_shared.result import Result

from .questions import shown_question
from .summary import Batch, batches_of, latency_ms, new_tokens

Tell = Callable[[str], None]
_REMIND_S = 10.0


class View(Protocol):
    """How the demo is seen. `ride` is entered while requests run; the other calls may come at any time."""

    def say(self, text: str) -> None:
        """Something is done or about to begin."""

    def step(self, text: str, done: str) -> AbstractContextManager[Tell]:
        """Something long: `text` while it lasts, with what the yielded function is told; `done` after it."""

    def ride(self, board: Board) -> AbstractContextManager[None]:
        """Show buses and answers as `board` learns of them."""

    def answered(self, board: Board, result: Result) -> None:
        """An answer has come; the board knows it already."""


@dataclass(slots=True)
class Board:
    """All that is known of the requests of this run: what was asked and how, what has come back, who rides now."""

    seats: int
    total: int
    asked: dict[str, Request] = field(default_factory=dict)
    pushed_raw: set[str] = field(default_factory=set)
    results: list[Result] = field(default_factory=list)
    info: QueueInfo | None = None
    began: float = field(default_factory=time.monotonic)

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self.began

    @property
    def batches(self) -> list[Batch]:
        return batches_of(self.results)

    @property
    def departing(self) -> tuple[str, int] | None:
        """The batch that runs and has no answer yet, with its size."""
        known = {result.batch.id for result in self.results if result.batch}
        running = [(w.batch, w.batch_size) for w in (self.info.workers if self.info else ()) if w.batch]
        return next(((batch, size) for batch, size in running if batch not in known), None)

    def number_of(self, result: Result) -> int:
        """Which bus it was, counted from 1; 0 for a request that rode in none."""
        names = [batch.id for batch in self.batches]
        return names.index(result.batch.id) + 1 if result.batch else 0


class PlainView:
    """Lines of plain text, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._left: set[str] = set()
        self._back: set[str] = set()

    def say(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=True)

    @contextmanager
    def step(self, text: str, done: str) -> Iterator[Tell]:
        began = said = time.monotonic()
        self.say(f"{text} ...")

        def tell(detail: str) -> None:
            nonlocal said
            now = time.monotonic()
            if now - said >= _REMIND_S:
                said = now
                self.say(f"  {now - began:.0f} s so far {detail}".rstrip())

        yield tell
        self.say(f"{done} ({time.monotonic() - began:.1f} s)")

    @contextmanager
    def ride(self, board: Board) -> Iterator[None]:
        self.say(f"Buses with {board.seats} seats begin to run")
        yield

    def answered(self, board: Board, result: Result) -> None:
        batches = board.batches
        for number, batch in enumerate(batches, start=1):
            if batch.id not in self._left:
                self._left.add(batch.id)
                ago_s = result.timing.run_ms / 1000 if result.timing else 0.0  # its first answer tells of it
                self.say(
                    f"{board.elapsed_s - ago_s:6.1f} s  bus {number} has left: {batch.trigger}, "
                    f"{batch.size} of {board.seats} seats, batch {batch.id}"
                )
        self.say(f"{board.elapsed_s:6.1f} s  {caption(board, result)} -> {shown_answer(result)}")
        for number, batch in enumerate(batches, start=1):
            if batch.is_back and batch.id not in self._back:
                self._back.add(batch.id)
                self.say(
                    f"{board.elapsed_s:6.1f} s  bus {number} is back: the oldest waited {seconds(batch.waited_ms)}, "
                    f"the run took {seconds(batch.run_ms)}, {batch.tokens} tokens"
                )


def caption(board: Board, result: Result) -> str:
    """Who was answered: bus, id, door, time, tokens and question."""
    door = "raw LPUSH" if result.id in board.pushed_raw else "client"
    question = printable(shown_question(board.asked[result.id]))
    return (
        f"bus {board.number_of(result)}, {result.id} by {door}, {latency(result)}, "
        f"{new_tokens(result)} tokens: {question}"
    )


def shown_answer(result: Result) -> str:
    """The answer in one line, or why there is none."""
    if result.status == "succeeded":
        return printable(result.text) or "(an empty answer)"
    return f"{result.status}: {printable(result.error.message) if result.error else 'no reason given'}"


def printable(text: str) -> str:
    """One line without control characters: an answer must not steer the terminal."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def latency(result: Result) -> str:
    """From enqueue to release, for people; empty for a result without times."""
    return seconds(latency_ms(result.timing)) if result.timing else ""


def seconds(milliseconds: float) -> str:
    """A duration for people: `340 ms`, `2.31 s`."""
    return f"{milliseconds:.0f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.2f} s"
