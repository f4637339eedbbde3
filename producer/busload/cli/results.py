"""`busload results`."""

from __future__ import annotations

from typing import Annotated

import typer

from busload_shared.opening import open_queue

from .options import QUEUE, REDIS_URL, AsJson, QueueName, RedisUrl, partitions
from .output import BAD_NEWS, DONE, Output, perform

Ids = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Ids of requests", show_default=False)]
IdsFile = Annotated[str | None, typer.Option("--ids-file", help="A file with an id on each line; - is stdin")]
Pattern = Annotated[
    str | None, typer.Option("--pattern", help="All results whose id fits, as in 'july-*'. Walks all keys of the Redis")
]
Target = Annotated[
    str | None, typer.Option("--output", "-o", help="A .jsonl, .csv or .parquet file, or - for JSON lines on stdout")
]


def results(  # noqa: PLR0917 - each is an option of the command
    ids: Ids = None,
    ids_file: IdsFile = None,
    pattern: Pattern = None,
    target: Target = None,
    redis_url: RedisUrl = REDIS_URL,
    queue: QueueName = QUEUE,
    as_json: AsJson = False,
) -> None:
    """Export results, or show them as a table. Changes nothing, and waits for nothing.

    busload results 42 43

    busload results --ids-file ids.txt -o results.parquet

    busload results --pattern 'july-*' -o july.csv

    The column state tells unknown, waiting, running, answered and expired apart. --json is the same as -o -.
    Exits with 0 if every id is answered, 1 if some are not.
    """
    from ..analysis.command import ResultsOptions, run_results

    output = Output("busload results", as_json)
    options = ResultsOptions(tuple(ids or ()), ids_file, pattern, "-" if as_json and target is None else target)

    async def work() -> int:
        on = open_queue(redis_url, queue, partitions=partitions.get())
        tally = await run_results(on, options, output.out, output.err)
        output.note(tally.line())
        return DONE if tally.states.total() == tally.states["answered"] else BAD_NEWS

    perform(output, work)
