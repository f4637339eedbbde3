"""A queue on a real Redis, and Docker's executables replaced."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.autoscale.stub_compose import StubBin

from busload.operating.reaching import queue_on
from busload_shared.queue import Queue


@pytest.fixture
def stub_bin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StubBin:
    """Nothing else of Docker is on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return StubBin(folder)


@pytest.fixture
async def queue(any_redis_url: str) -> AsyncIterator[Queue]:
    async with queue_on(any_redis_url, "busload:default", patience_s=0.2) as queue:
        yield queue
