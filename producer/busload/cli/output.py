"""What commands print, where, and the exit codes they end with."""

from __future__ import annotations

import asyncio
import json
import select
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn

import typer
from pydantic import BaseModel
from rich.console import Console
from rich.text import Text

from busload_shared.errors import (
    BusloadError,
    BusloadUnavailable,
    DeadlineUnmeetable,
    QueueFull,
    RedisUnfit,
    RequestInvalid,
    SettingsInvalid,
)

DONE, BAD_NEWS, ASKED_WRONGLY, NO_REDIS, REFUSED, INTERRUPTED = 0, 1, 2, 3, 4, 130

CODES: dict[type[BusloadError], int] = {
    RequestInvalid: ASKED_WRONGLY,
    SettingsInvalid: ASKED_WRONGLY,
    BusloadUnavailable: NO_REDIS,
    RedisUnfit: NO_REDIS,
    QueueFull: REFUSED,
    DeadlineUnmeetable: REFUSED,
}
"""All other errors are bad news."""

CODES_HELP = (
    "Exit codes: 0 done; 1 bad news (a request failed, no such id, not in time); 2 asked wrongly; 3 Redis cannot be "
    "reached or refuses; 4 the queue is full or refused the request; 130 Ctrl-C."
)

PATIENCE_S = 2.0
"""So long a command waits for a Redis that is away."""

_PIPE_WIDTH = 200

_SLOW_S = 0.7
"""After so long a person is told what is being waited for."""

_LOOKS_UP_S = 0.2


@dataclass(frozen=True, slots=True)
class Output:
    """Where a command prints: answers on stdout, JSON there with `as_json`; all else on stderr."""

    command: str
    as_json: bool = False
    out: Console = field(default_factory=lambda: Console(highlight=False, width=_width()))
    err: Console = field(default_factory=lambda: Console(stderr=True, highlight=False))

    @property
    def shows_progress(self) -> bool:
        """Whether somebody sees a moving picture on stderr."""
        return self.err.is_terminal and not self.err.is_dumb_terminal

    def answer(self, text: str, style: str = "") -> None:
        """A line of the answer as people read it."""
        self.out.print(Text(text, style=style), soft_wrap=True)

    def json_line(self, record: BaseModel | object) -> None:
        """One record on a line of its own, seen at once by whoever reads the pipe."""
        if isinstance(record, BaseModel):
            text = record.model_dump_json(exclude_none=True)
        else:
            text = json.dumps(record, ensure_ascii=False)
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def note(self, text: str, style: str = "dim") -> None:
        """Something worth knowing beside the answer."""
        self.err.print(Text(text, style=style), soft_wrap=True)

    def complain(self, text: str) -> None:
        """What is wrong, with the command's name."""
        self.note(f"{self.command}: {text}", "red")

    @asynccontextmanager
    async def patient(self, text: str) -> AsyncIterator[None]:
        """While the block lasts longer than a moment, tell a person at a terminal what is being done."""
        task = asyncio.create_task(self._spin(text)) if self.shows_progress else None
        try:
            yield
        finally:
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    async def _spin(self, text: str) -> None:
        await asyncio.sleep(_SLOW_S)
        with self.err.status(text):
            await asyncio.Event().wait()


def _width() -> int | None:
    """The terminal's width; in a pipe nothing is cut at one."""
    return None if sys.stdout.isatty() else _PIPE_WIDTH


def perform(output: Output, work: Callable[[], Coroutine[Any, Any, int]], *, interrupted: str = "") -> NoReturn:
    """Do the work of a command and end with its exit code. An error becomes a line on stderr and a code.

    `interrupted` tells after Ctrl-C what goes on without us.
    """
    try:
        code = asyncio.run(work())
    except BusloadError as error:
        output.complain(str(error))
        code = code_of(error)
    except KeyboardInterrupt:
        output.note(f"{output.command}: interrupted{'; ' + interrupted if interrupted else ''}")
        code = INTERRUPTED
    raise typer.Exit(code)


def code_of(error: BusloadError) -> int:
    """The exit code that tells of this error."""
    return next((code for kind, code in CODES.items() if isinstance(error, kind)), BAD_NEWS)


@contextmanager
def interruptible() -> Iterator[None]:
    """While the block reads from a person, Ctrl-C ends it: asyncio's own handler would only take note of it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def confirmed(output: Output, question: str, *, yes: bool) -> bool:
    """Ask a person. Without one to ask, only `--yes` will do: raises SettingsInvalid."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise SettingsInvalid("there is no terminal to ask on: give --yes if you mean it")
    with interruptible():
        agreed = _agrees(output, question)
    if not agreed:
        output.note("nothing was done")
    return agreed


def _agrees(output: Output, question: str) -> bool:
    """Ask until the answer is yes or no; the end of input is a no.

    A blocking read could sleep through a Ctrl-C that comes just before it; one that looks up now and then cannot.
    """
    while True:
        output.err.print(f"{question} [y/N]: ", end="", markup=False, highlight=False)
        while not select.select([sys.stdin], [], [], _LOOKS_UP_S)[0]:
            pass
        said = sys.stdin.readline().strip().lower()
        if said in ("", "n", "no"):
            return False
        if said in ("y", "yes"):
            return True
