"""`busload run`."""

from __future__ import annotations

from typing import Annotated

import typer

from busload_shared.replicated import Copies

from ..bulk.lines import STDIN, Format
from ..wiring import Address
from .options import QUEUE, REDIS_URL, AsJson, QueueName, RedisUrl, partitions
from .output import BAD_NEWS, DONE, Output, perform

_RESULT_TTL_S = 86_400

Source = Annotated[str, typer.Argument(metavar="INPUT", help="Requests: OpenAI Batch, JSON lines or CSV; - is stdin")]
Target = Annotated[
    str, typer.Option("--output", "-o", help="Where results go: .jsonl or .csv; - is stdout", show_default=False)
]
Errors = Annotated[
    str | None, typer.Option("--errors", help="Where errors go; for out.jsonl that is out.errors.jsonl unless given")
]
AsFormat = Annotated[Format | None, typer.Option("--format", help="What INPUT is; its first line tells unless given")]
JobName = Annotated[
    str | None, typer.Option("--job", help="Name of the run, which its requests' ids begin with; made of the two paths")
]
InFlight = Annotated[int, typer.Option("--in-flight", min=1, max=100_000, help="Requests under way at most")]
PatienceS = Annotated[float, typer.Option("--patience-s", min=0, help="So long Redis may be away, s")]
Limit = Annotated[int, typer.Option("--max-queue-length", min=1, help="Wait while so many wait in the queue")]


def run(  # noqa: PLR0913, PLR0917 - each is an option of the command
    source: Source,
    target: Target,
    errors: Errors = None,
    format: AsFormat = None,
    job: JobName = None,
    in_flight: InFlight = 512,
    patience_s: PatienceS = 60.0,
    max_queue_length: Limit = 100_000,
    redis_url: RedisUrl = REDIS_URL,
    queue: QueueName = QUEUE,
    as_json: AsJson = False,
) -> None:
    """Run a file of requests; each result is written as it comes, in any order.

    busload run batch.jsonl -o results.jsonl

    busload run prompts.csv -o answers.csv --in-flight 2000

    zcat many.jsonl.gz | busload run - -o results.jsonl --job july

    After a crash or Ctrl-C the same command goes on where it stopped: what is in the output is not run again, nor is
    what has a result in the queue. Bad lines go to the error file with their number and stop nothing.
    Exits with 0 if all lines succeeded and 1 if some have errors.
    """
    from ..bulk.command import RESUME, BulkOptions, bulk_at

    output = Output("busload run", as_json)
    options = BulkOptions(source, target, errors=errors, format=format, job=job, in_flight=in_flight)
    address = Address(redis_url, queue, max_queue_length, _RESULT_TTL_S, patience_s, Copies(), partitions.get())

    async def work() -> int:
        summary = await bulk_at(address, options, output.err)
        for line in summary.lines(as_json=as_json):
            (output.note if target == STDIN else output.answer)(line)
        return DONE if summary.all_succeeded else BAD_NEWS

    perform(output, work, interrupted=f"what is under way goes on; {RESUME}")
