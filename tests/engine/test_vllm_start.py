"""Starts that must fail with what to change, and a KV cache that is too small on purpose."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from busload_shared.errors import EngineStartFailed
from busload_shared.request import Request
from busload_worker.engines.host import EngineHost
from busload_worker.engines.protocol import BatchDone, EngineRow, RowDone, RowRefused
from busload_worker.engines.vllm_settings import VllmSettings
from busload_worker.smollm import smollm2_folder

pytestmark = [pytest.mark.engine]

SMALL = {"max_model_len": 96, "block_size": 32, "kv_cache_memory_bytes": 2**28, "num_gpu_blocks_override": 15}
"""14 blocks that rows can use, where 8 rows of 96 tokens need 24."""


def a_host(**fields: Any) -> EngineHost:
    settings = VllmSettings(**({"model": str(smollm2_folder()), "max_batch_size": 8} | fields))
    return EngineHost("vllm", settings, start_timeout_s=300, hang_s=120)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"model": "nobody/has-this-model"}, "BUSLOAD_MODEL="),
    ],
)
async def test_a_start_that_cannot_work_says_which_line_to_change(fields: dict[str, Any], words: str) -> None:
    host = a_host(**fields)
    with pytest.raises(EngineStartFailed, match=words):
        await host.start()
    assert host.pid is None


async def test_a_batch_too_heavy_for_the_cache_runs_in_parts_and_no_row_is_put_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    host = a_host(options=SMALL)
    info = await host.start()
    assert info.kv_tokens == (14 - 8) * 32
    rows = [
        EngineRow(
            index=index,
            request=Request(id=f"r{index}", prompt="Once upon a time", max_tokens=80, temperature=0.0, ignore_eos=True),
        )
        for index in range(8)
    ]
    heavy = Request(id="heavy", prompt="Hi", n=9, temperature=1.0, max_tokens=1)
    events = [event async for event in host.run("b", [*rows, EngineRow(index=8, request=heavy)])]
    done = {event.index: event for event in events if isinstance(event, RowDone)}
    assert [done[index].usage.completion_tokens for index in range(8)] == [80] * 8
    assert len({row.outputs[0].text[:40] for row in done.values()}) == 1
    assert [event.code for event in events if isinstance(event, RowRefused)] == ["too_heavy"]
    assert isinstance(events[-1], BatchDone)
    assert events[-1].proof is not None
    assert all(row.proof is not None and row.proof.holds for row in done.values()), "3 blocks each, 14 in all"
    assert max(done[i].ran_ms for i in range(4)) < min(done[i].ran_ms for i in range(4, 8)), "in parts"
    assert not [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    await host.stop()
