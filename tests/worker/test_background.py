"""What the worker does not wait for is watched all the same: answers that cannot leave end it, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.worker.conftest import Depot

from busload_worker.background import Background

Make = Callable[..., dict[str, Any]]


async def waits_for(event: asyncio.Event) -> None:
    await event.wait()


async def fails(event: asyncio.Event) -> None:
    await event.wait()
    raise RuntimeError("no more words")


async def test_it_can_be_waited_for_until_so_many_are_left() -> None:
    background, events = Background(), [asyncio.Event() for _ in range(3)]
    for event in events:
        background.spawn(waits_for(event))
    waiting = asyncio.create_task(background.down_to(1))
    events[2].set()
    await asyncio.sleep(0.01)
    assert (background.size, waiting.done()) == (2, False)
    events[0].set()
    async with asyncio.timeout(10):
        await waiting
    assert background.size == 1
    await background.end()
    assert background.size == 0


async def test_who_watches_is_told_of_a_failure_and_of_nothing_else() -> None:
    background, event = Background(), asyncio.Event()
    watching = asyncio.create_task(background.watch())
    background.spawn(waits_for(asyncio.Event()))
    await background.end()
    await asyncio.sleep(0.01)
    assert not watching.done()
    background.spawn(fails(event))
    event.set()
    async with asyncio.timeout(10):
        with pytest.raises(RuntimeError, match="no more words"):
            await watching


async def test_a_worker_whose_answers_cannot_leave_ends_and_another_answers(
    depot: Depot, request_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    await depot.start(lease_s=1)
    ((_, running),) = depot._tasks
    depot._tasks.clear()

    def broken(*_: Any) -> None:
        raise RuntimeError("no more words")

    monkeypatch.setattr("busload_worker.running.delivery", broken)
    await depot.push(request_of("a"))
    async with asyncio.timeout(20):
        with pytest.raises(RuntimeError, match="no more words"):
            await running

    monkeypatch.undo()
    await depot.start(worker_name="w2", lease_s=1)
    assert (await depot.result("a")).status == "succeeded"
