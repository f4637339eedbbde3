"""vLLM runs out of memory in a step: what runs after that is answered as if nothing had happened, or not at all."""

from __future__ import annotations

import pytest

from busload_shared.errors import EngineDied, OutOfMemory
from busload_shared.request import Request
from busload_worker.engines.host import EngineHost
from busload_worker.engines.protocol import BatchDone, EngineRow, RowDone
from busload_worker.engines.vllm_settings import VllmSettings
from busload_worker.smollm import smollm2_folder

from .conftest import MAX_MODEL_LEN
from .short_core import HOLDS, POISON_TOKENS

pytestmark = [pytest.mark.engine, pytest.mark.asyncio(loop_scope="session")]


def a_row(index: int, max_tokens: int = 12) -> EngineRow:
    """Over a KV block of prompt, so that a prefix cache has something to give for it."""
    counted = " ".join(f"{index * 100 + n}" for n in range(60))
    request = Request(id=f"r{index}", prompt=f"Count on: {counted}", max_tokens=max_tokens, temperature=0.0)
    return EngineRow(index=index, request=request)


async def texts(host: EngineHost, *rows: EngineRow) -> list[str]:
    events = [event async for event in host.run("b", rows)]
    assert isinstance(events[-1], BatchDone)
    assert events[-1].proof is None or events[-1].proof.holds
    done = {event.index: event for event in events if isinstance(event, RowDone)}
    assert all(done[row.index].usage.prompt_tokens > 128 for row in rows)
    return [done[row.index].outputs[0].text for row in rows]


async def test_after_a_step_without_memory_it_answers_from_what_was_computed_or_its_process_ends(
    vllm: EngineHost,
) -> None:
    rows = [a_row(index) for index in range(2 * HOLDS)]
    right = await texts(vllm, *rows)
    settings = VllmSettings(
        model=str(smollm2_folder()), max_batch_size=4, options={"max_model_len": str(MAX_MODEL_LEN)}
    )
    short = EngineHost("tests.engine.short_core:ShortCore", settings, start_timeout_s=300, hang_s=120)
    await short.start()
    pid = short.pid

    with pytest.raises(OutOfMemory, match="CUDA out of memory"):
        await texts(short, *rows)
    assert await texts(short, *rows[:HOLDS]) + await texts(short, *rows[HOLDS:]) == right
    assert short.pid == pid, "nothing was started again"

    with pytest.raises(EngineDied, match="cannot go on after RuntimeError"):
        await texts(short, a_row(0), a_row(1, POISON_TOKENS))
    await short.kill()
