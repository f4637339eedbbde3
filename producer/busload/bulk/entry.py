"""One line of the input, as it was understood."""

from __future__ import annotations

from typing import NamedTuple

from busload_shared.errors import RequestInvalid

from ..encoding import Outgoing


class Entry(NamedTuple):
    """`one` to submit, or `error` where the line is no request. `custom_id` is the line's own name. `endpoint`, `model`
    and `top_logprobs` are for the answer in OpenAI's form."""

    number: int
    id: str
    custom_id: str | None = None
    one: Outgoing | None = None
    error: RequestInvalid | None = None
    endpoint: str = ""
    model: str = ""
    top_logprobs: int | None = None
