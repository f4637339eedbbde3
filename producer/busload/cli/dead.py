"""`busload dead list`, `show`, `redrive`, `purge`: the letters of requests that were given up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from busload_shared.errors import RequestInvalid
from busload_shared.queue import Queue
from busload_shared.replies import DeadLetter

from ..demo.view import printable
from ..operating.dead_letters import Act, Handled, act_on, act_on_all, letters, name_of, named, with_code
from ..operating.reaching import queue_on
from .options import QUEUE, REDIS_URL, AsJson, QueueName, RedisUrl, Yes, partitions
from .output import BAD_NEWS, DONE, PATIENCE_S, Output, confirmed, perform
from .progress import counting
from .shown import age, counted, harmless

app: typer.Typer = typer.Typer(
    help="Dead letters: requests that were given up, with the reason.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

Names = Annotated[list[str] | None, typer.Argument(metavar="ID...", help="Ids, or letters as `dead list` names them")]
Name = Annotated[str, typer.Argument(metavar="ID", help="An id, or a letter as `dead list` names it")]
Code = Annotated[str | None, typer.Option(help="Only those with this error code, such as poison")]
Count = Annotated[int, typer.Option("--count", min=1, help="Tell of so many at most")]
All = Annotated[bool, typer.Option("--all", help="All there are now")]

Work = Callable[[Queue], Awaitable[int]]


@app.command("list")
def list_letters(
    count: Count = 20,
    code: Code = None,
    redis_url: RedisUrl = REDIS_URL,
    queue: QueueName = QUEUE,
    as_json: AsJson = False,
) -> None:
    """List dead letters, the newest first.

    A letter has a name of its own beside its id, since an id may have none or several.

        busload dead list --code poison

        busload dead list --count 10000 --json | jq -r .code | sort | uniq -c
    """
    output = Output("busload dead list", as_json)

    async def work(on: Queue) -> int:
        total, now_ms = (info := await on.info()).dead, info.now_ms
        table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
        for column in ("letter", "id", "age", "code", "runs"):
            table.add_column(column, no_wrap=True, max_width=36)
        table.add_column("message", no_wrap=True, overflow="ellipsis")
        shown = 0
        async for letter in letters(on, with_code(code)):
            if output.as_json:
                output.json_line(_record(letter))
            else:
                table.add_row(*_row(letter, now_ms))
            shown += 1
            if shown == count:
                break
        if shown and not output.as_json:
            output.out.print(table)
        output.note(f"{shown} of {counted(total, 'dead letter')}")
        return DONE

    _on_queue(output, redis_url, queue, work)


@app.command()
def show(name: Name, redis_url: RedisUrl = REDIS_URL, queue: QueueName = QUEUE, as_json: AsJson = False) -> None:
    """Show a dead letter with its request.

    Of an id that died more than once, all its letters.

        busload dead show 42

        busload dead show 42 --json | jq -r .payload
    """
    output = Output("busload dead show", as_json)

    async def work(on: Queue) -> int:
        now_ms = (await on.info()).now_ms
        for letter in await named(on, [name]):
            if output.as_json:
                output.json_line(_record(letter))
            else:
                _show(output, letter, now_ms)
        return DONE

    _on_queue(output, redis_url, queue, work)


@app.command()
def redrive(  # noqa: PLR0917 - each is an option of the command
    names: Names = None,
    all_of_them: All = False,
    code: Code = None,
    yes: Yes = False,
    redis_url: RedisUrl = REDIS_URL,
    queue: QueueName = QUEUE,
    as_json: AsJson = False,
) -> None:
    """Put dead letters back into the queue, as if they had just come.

    Their error results go. What made them die may make them die again: a letter that does so while this runs
    is left alone.

        busload dead redrive 42

        busload dead redrive --all --code poison --yes
    """
    output = Output("busload dead redrive", as_json)
    job = _Job(output, names or [], all_of_them, code, yes, "redriven")
    _on_queue(output, redis_url, queue, lambda on: job.run(on, on.redrive))


@app.command()
def purge(  # noqa: PLR0917 - each is an option of the command
    names: Names = None,
    all_of_them: All = False,
    code: Code = None,
    yes: Yes = False,
    redis_url: RedisUrl = REDIS_URL,
    queue: QueueName = QUEUE,
    as_json: AsJson = False,
) -> None:
    """Drop dead letters for good.

    Their error results stay until they expire.

        busload dead purge 42 43

        busload dead purge --all --yes
    """
    output = Output("busload dead purge", as_json)
    job = _Job(output, names or [], all_of_them, code, yes, "dropped")
    _on_queue(output, redis_url, queue, lambda on: job.run(on, on.drop_dead))


@dataclass(frozen=True, slots=True)
class _Job:
    """Which letters something is done to, and what it is called."""

    output: Output
    names: list[str]
    all_of_them: bool
    code: str | None
    yes: bool
    done: str

    async def run(self, queue: Queue, act: Act) -> int:
        """Do it to the letters named, or to all after a question. Returns the exit code."""
        if self.all_of_them == bool(self.names):
            raise RequestInvalid("name letters by their ids, or give --all")
        handled = await (self._named(queue, act) if self.names else self._all(queue, act))
        if handled is None:
            return BAD_NEWS
        if self.output.as_json:
            self.output.json_line({self.done: handled.done, "gone": handled.gone})
        else:
            gone = f"; {handled.gone} were gone before" if handled.gone else ""
            self.output.answer(f"{counted(handled.done, 'dead letter')} {self.done}{gone}")
        return DONE

    async def _named(self, queue: Queue, act: Act) -> Handled:
        wanted = with_code(self.code)
        chosen = [letter for letter in await named(queue, self.names) if wanted(letter)]
        with counting(self.output, self.done, total=len(chosen)) as counter:
            return await act_on(act, chosen, counter.update)

    async def _all(self, queue: Queue, act: Act) -> Handled | None:
        total = (await queue.info()).dead
        kind = f" with the code {self.code}" if self.code else ""
        question = f"{queue.keys.queue} has {counted(total, 'dead letter')}. Are all{kind} to be {self.done}?"
        if total and not confirmed(self.output, question, yes=self.yes):
            return None
        if act == queue.drop_dead and self.code is None:
            return Handled(await queue.purge_dead(), 0)  # what is no letter goes too
        with counting(self.output, self.done, total=total) as counter:
            return await act_on_all(queue, act, with_code(self.code), total=total, tell=counter.update)


def _row(letter: DeadLetter, now_ms: float) -> tuple[str | Text, ...]:
    runs, came = str(letter.attempts), age(max(0.0, now_ms - letter.at_ms))
    return name_of(letter), Text(letter.id or "-"), came, letter.code, runs, Text(printable(letter.message))


def _record(letter: DeadLetter) -> dict[str, object]:
    return {"letter": name_of(letter), **letter.model_dump(mode="json")}


def _show(output: Output, letter: DeadLetter, now_ms: float) -> None:
    output.answer(f"letter {name_of(letter)}, id {letter.id or '(cannot be read)'}", "bold")
    output.answer(f"reason    {letter.code}: {printable(letter.message)}")
    output.answer(f"died      {age(max(0.0, now_ms - letter.at_ms))} ago on {letter.worker}, in batch {letter.batch}")
    output.answer(f"lived     {age(max(0.0, letter.at_ms - letter.enqueued_ms))}, runs {letter.attempts}")
    output.answer("payload" + (", base64" if letter.payload_is_base64 else ""))
    output.answer(harmless(letter.payload))


def _on_queue(output: Output, redis_url: str, name: str, work: Work) -> None:
    async def all_of_it() -> int:
        async with queue_on(redis_url, name, partitions=partitions.get(), patience_s=PATIENCE_S) as queue:
            return await work(queue)

    perform(output, all_of_it, interrupted="what is done stays done")
