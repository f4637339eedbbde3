"""Where a request belongs in a distributed trace, as W3C Trace Context writes it. Knows nothing of OpenTelemetry."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field


class TraceContext(BaseModel):
    """The span that a request was sent from: the two headers of W3C Trace Context.

    Carried from the request to its result, never a reason to refuse it: a `traceparent` that means nothing is ignored.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", strict=True)

    traceparent: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[!-~]+$")]
    tracestate: Annotated[str, Field(max_length=512, pattern=r"^[\t -~]*$")] | None = None

    @property
    def is_sampled(self) -> bool:
        """Whether the producer records this trace."""
        flags = self.traceparent.split("-")[3:4]
        return bool(flags) and flags[0][1:2] in "13579bdf" and len(flags[0]) == 2
