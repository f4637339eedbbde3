"""What the host's tests share: hosts around the fake core, rows, and a look at processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from busload_shared.request import Request
from busload_worker.engines.fake_model import FakeCurve
from busload_worker.engines.host import EngineHost
from busload_worker.engines.protocol import EngineEvent, EngineRow, RowDone

SLOW = FakeCurve(per_token_ms=20)


def a_host(curve: FakeCurve = SLOW, *, hang_s: float = 30) -> EngineHost:
    return EngineHost("fake", curve, start_timeout_s=30, hang_s=hang_s)


def a_row(index: int, **fields: Any) -> EngineRow:
    given = {"id": f"r{index}", "prompt": f"prompt {index}", "max_tokens": 1} | fields
    return EngineRow(index=index, request=Request(**given))


async def told(host: EngineHost, *rows: EngineRow, batch: str = "b") -> list[EngineEvent]:
    return [event async for event in host.run(batch, rows)]


def texts(events: list[EngineEvent]) -> dict[int, str]:
    return {event.index: event.outputs[0].text for event in events if isinstance(event, RowDone)}


async def until(true: Callable[[], bool], *, within_s: float) -> float:
    """Wait for it; returns how long it took, in seconds."""
    began = time.monotonic()
    while not true():
        assert time.monotonic() - began < within_s, f"not within {within_s} s"
        await asyncio.sleep(0.005)
    return time.monotonic() - began


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
