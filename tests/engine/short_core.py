"""VllmCore with a model step that holds two rows, for test_vllm_memory.py: its process imports it by name."""

from __future__ import annotations

from typing import Any

import torch

from busload_worker.engines.protocol import EngineInfo
from busload_worker.engines.vllm_core import VllmCore

HOLDS = 2
POISON_TOKENS = 13


class ShortCore(VllmCore):
    """Every step with more than two rows runs out of memory; after a row of 13 new tokens every step fails."""

    def load(self) -> EngineInfo:
        info = super().load()
        assert self._engine is not None
        executor = self._engine.engine_core.engine_core.model_executor
        step, broken = executor.execute_model, False

        def execute_model(scheduled: Any, *args: Any, **named: Any) -> Any:
            nonlocal broken
            broken |= any(new.sampling_params.max_tokens == POISON_TOKENS for new in scheduled.scheduled_new_reqs)
            if broken:
                raise RuntimeError("CUDA error: an illegal memory access was encountered")
            if len(scheduled.num_scheduled_tokens) > HOLDS:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
            return step(scheduled, *args, **named)

        executor.execute_model = execute_model
        return info
