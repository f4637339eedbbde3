"""How long a batch takes, as a worker has learned it from its own batches."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, ConfigDict


class ServiceCurve(BaseModel):
    """Batch time in ms = overhead + prompt_ms * (prompt tokens) + step_ms * (longest row's new tokens) + token_ms *
    (all rows' new tokens). Fitted by the worker (worker/busload_worker/curve_fit.py); no coefficient is negative.

    The form: one pass over all prompts, then one step for each token of the longest row, each of which costs a
    fixed part and a part for each row that still runs.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="ignore")

    overhead_ms: float
    prompt_ms: float
    step_ms: float
    token_ms: float

    def predict_ms(self, *, prompt_tokens: int, longest: int, new_tokens: int) -> float:
        """The time of a batch, ms."""
        return self.overhead_ms + self.prompt_ms * prompt_tokens + self.step_ms * longest + self.token_ms * new_tokens
