"""Ends each answer at the length that its request's `seed` names. vLLM loads it into the engine: all modes have it.

Greedy sampling does not use the seed, and nothing in Busload looks at it, so the length is hidden until it is reached.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from vllm import SamplingParams
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor
from vllm.v1.sample.logits_processor.builtin import process_dict_updates

if TYPE_CHECKING:
    from vllm.config import VllmConfig


class EndAtSeed(LogitsProcessor):
    """The end of the answer is impossible before its token number `seed`, and certain there."""

    def __init__(self, vllm_config: VllmConfig, device: torch.device, is_pin_memory: bool) -> None:  # noqa: ARG002
        self._end = int(vllm_config.model_config.hf_config.eos_token_id)
        self._rows: dict[int, tuple[int, list[int]]] = {}

    @classmethod
    def validate_params(cls, sampling_params: SamplingParams) -> None:
        """Any are good."""

    def is_argmax_invariant(self) -> bool:
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        process_dict_updates(self._rows, batch_update, _row)

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        if self._rows:
            logits[list(self._rows), self._end] = -float("inf")
            due = [row for row, (length, made) in self._rows.items() if len(made) >= length - 1]
            if due:
                logits[due, self._end] = logits.max() + 1.0
        return logits


def _row(params: SamplingParams, _: list[int] | None, made: list[int]) -> tuple[int, list[int]] | None:
    return (params.seed, made) if params.seed else None
