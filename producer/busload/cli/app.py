"""The `busload` command, put together."""

from __future__ import annotations

import typer

from . import (
    autoscale,
    bench,
    dead,
    demo,
    drain,
    migrate,
    options,
    plan,
    queue,
    requests,
    results,
    run,
    schema,
    submit,
    top,
)
from .output import CODES_HELP

_ASKING, _OPERATING, _TRYING = "Ask and be answered", "Operate", "Try and plan"

app: typer.Typer = typer.Typer(
    help="Serves LLM requests in dynamic batches from Redis lists.",
    epilog=CODES_HELP,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


@app.callback()
def _common(partitions: options.Partitions = 1) -> None:
    options.partitions.set(partitions)


app.command(rich_help_panel=_ASKING)(submit.submit)
app.command(rich_help_panel=_ASKING)(requests.result)
app.command(rich_help_panel=_ASKING)(requests.wait)
app.command(rich_help_panel=_ASKING)(requests.status)
app.command(rich_help_panel=_ASKING)(requests.cancel)
app.command(rich_help_panel=_ASKING)(run.run)
app.command(rich_help_panel=_ASKING)(results.results)
app.command(rich_help_panel=_OPERATING)(queue.queue)
app.command(rich_help_panel=_OPERATING)(top.top)
app.add_typer(dead.app, name="dead", rich_help_panel=_OPERATING)
app.command(rich_help_panel=_OPERATING)(drain.drain)
app.command(rich_help_panel=_OPERATING)(autoscale.autoscale)
app.command(rich_help_panel=_OPERATING)(migrate.migrate)
app.command(rich_help_panel=_TRYING)(bench.bench)
app.command(rich_help_panel=_TRYING)(demo.demo)
app.command(rich_help_panel=_TRYING)(plan.plan)
app.command(rich_help_panel=_TRYING)(schema.schema)
