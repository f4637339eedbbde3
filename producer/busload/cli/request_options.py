"""The options of `busload submit` that become fields of the request, under the fields' own names."""

from __future__ import annotations

from typing import Annotated

import typer

_SAMPLING, _FORM, _TERMS = "Sampling", "Form of the output", "Order, time and labels"

Id = Annotated[str | None, typer.Option(help="Its id; a random one if not given")]
MaxTokens = Annotated[int | None, typer.Option(help="New tokens at most (256)", rich_help_panel=_SAMPLING)]
MinTokens = Annotated[int | None, typer.Option(help="New tokens at least", rich_help_panel=_SAMPLING)]
Temperature = Annotated[float | None, typer.Option(help="0 is greedy (1.0)", rich_help_panel=_SAMPLING)]
TopP = Annotated[float | None, typer.Option(help="Over 0, up to 1", rich_help_panel=_SAMPLING)]
TopK = Annotated[int | None, typer.Option(help="0 considers all tokens", rich_help_panel=_SAMPLING)]
MinP = Annotated[float | None, typer.Option(help="0 to 1", rich_help_panel=_SAMPLING)]
Seed = Annotated[int | None, typer.Option(help="The same seed samples the same", rich_help_panel=_SAMPLING)]
Stop = Annotated[
    list[str] | None, typer.Option(help="Text that ends it; may be given again", rich_help_panel=_SAMPLING)
]
PresencePenalty = Annotated[float | None, typer.Option(help="-2 to 2", rich_help_panel=_SAMPLING)]
FrequencyPenalty = Annotated[float | None, typer.Option(help="-2 to 2", rich_help_panel=_SAMPLING)]
RepetitionPenalty = Annotated[float | None, typer.Option(help="Over 0, up to 10", rich_help_panel=_SAMPLING)]
Samples = Annotated[int | None, typer.Option("--n", help="Samples, 1 to 16", rich_help_panel=_SAMPLING)]
Logprobs = Annotated[int | None, typer.Option(help="Likeliest tokens told for each", rich_help_panel=_SAMPLING)]
IgnoreEos = Annotated[bool, typer.Option("--ignore-eos", help="Go on past the end token", rich_help_panel=_SAMPLING)]
ReturnTokenIds = Annotated[
    bool, typer.Option("--return-token-ids", help="Tokens' ids in the result too", rich_help_panel=_SAMPLING)
]
JsonSchema = Annotated[
    str | None, typer.Option(help="JSON Schema of the output, or @FILE", rich_help_panel=_FORM, metavar="JSON|@FILE")
]
Regex = Annotated[str | None, typer.Option(help="The output matches it", rich_help_panel=_FORM)]
Choice = Annotated[
    list[str] | None, typer.Option(help="The output is one of these; give it again for each", rich_help_panel=_FORM)
]
Grammar = Annotated[
    str | None, typer.Option(help="Grammar of the output, or @FILE", rich_help_panel=_FORM, metavar="TEXT|@FILE")
]
Priority = Annotated[
    int | None, typer.Option(help="-100 to 100; a point is worth ten seconds of waiting", rich_help_panel=_TERMS)
]
TtlS = Annotated[float | None, typer.Option(help="Not run when older than this, s", rich_help_panel=_TERMS)]
Deadline = Annotated[float | None, typer.Option(help="Or not run past this Unix time, s", rich_help_panel=_TERMS)]
Route = Annotated[str | None, typer.Option(help="Label whose output lengths are learned", rich_help_panel=_TERMS)]
Metadata = Annotated[
    str | None,
    typer.Option(help="JSON object handed back with the result", rich_help_panel=_TERMS, metavar="JSON|@FILE"),
]
