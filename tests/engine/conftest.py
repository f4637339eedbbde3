"""One vLLM for all engine tests: it takes some 15 s to load, and two beside each other starve on two cores."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from busload_worker.engines.host import EngineHost
from busload_worker.engines.vllm_settings import VllmSettings
from busload_worker.smollm import smollm2_folder

SEATS = 16
MAX_MODEL_LEN = 256


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def vllm() -> AsyncIterator[EngineHost]:
    settings = VllmSettings(
        model=str(smollm2_folder()),
        max_batch_size=SEATS,
        options={"max_model_len": str(MAX_MODEL_LEN)},
        grammar_timeout_s=2,
    )
    host = EngineHost("vllm", settings, start_timeout_s=300, hang_s=120)
    info = await host.start()
    assert info.max_model_len == MAX_MODEL_LEN
    assert info.kv_tokens is not None
    assert info.kv_tokens >= SEATS * MAX_MODEL_LEN
    yield host
    await host.stop()
