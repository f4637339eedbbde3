"""Each request gets the answer to its own prompt, in whatever order a batch's rows end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.worker.conftest import Depot

Make = Callable[..., dict[str, Any]]


@pytest.mark.parametrize("engine_host", ["inline", "process"])
async def test_rows_that_end_in_another_order_than_they_came_get_their_own_answers(
    depot: Depot, request_of: Make, engine_host: str
) -> None:
    lengths = {"a": 40, "b": 2, "c": 20, "d": 4}
    await depot.push(*[request_of(name, max_tokens=tokens) for name, tokens in lengths.items()])
    await depot.start(max_batch_size=4, fake_per_token_ms=5, engine_host=engine_host)

    results = await depot.results(*lengths)

    assert {r.batch.size for r in results if r.batch} == {4}
    ends = {r.id: r.timing.finished_ms for r in results if r.timing and r.timing.finished_ms}
    assert sorted(lengths, key=lambda name: ends[name]) == ["b", "d", "c", "a"]
    assert {r.id: r.text.split(":")[1] for r in results if r.text} == {name: name for name in lengths}
    assert {r.id: r.usage.completion_tokens for r in results if r.usage} == lengths
