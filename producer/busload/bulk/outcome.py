"""What became of one request of many."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from busload_shared.errors import BusloadError
from busload_shared.request import Request
from busload_shared.result import Result

Given = Request | Mapping[str, Any]


class Outcome(NamedTuple):
    """One request's end: `result`, or `error` where there will be none. `item` is what was given, `position` its place
    in the iterable, from 0; `id` the request's, empty where it has none that can be one."""

    position: int
    item: Given
    id: str
    result: Result | None = None
    error: BusloadError | None = None

    @property
    def succeeded(self) -> bool:
        """Whether there is a result with outputs."""
        return self.result is not None and self.result.status == "succeeded"

    @property
    def text(self) -> str:
        """The first sample's text; empty when the request did not succeed."""
        return "" if self.result is None else self.result.text
