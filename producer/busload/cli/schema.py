"""`busload schema`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Part(StrEnum):
    """What has a published JSON Schema."""

    request = "request"
    result = "result"


def schema(part: Annotated[Part, typer.Argument(help="What to describe")]) -> None:
    """Print the JSON Schema of a request or a result."""
    from busload_shared.schema import json_schema

    typer.echo(json_schema(part.value), nl=False)
