"""Like rides with like under a backlog, no batch is heavier than it may be, and nobody is left behind for ever."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from tests.waiting import wait_until
from tests.worker.conftest import Depot

from busload_shared.result import Result

Make = Callable[..., dict[str, Any]]


def batches(results: list[Result]) -> dict[str, list[Result]]:
    found = defaultdict(list)
    for result in results:
        assert result.batch is not None
        found[result.batch.id].append(result)
    return found


def tokens(result: Result) -> int:
    assert result.usage is not None
    return result.usage.completion_tokens


async def mixed(depot: Depot, request_of: Make, count: int, **settings: Any) -> list[Result]:
    """Answers to a backlog of short and long requests in turn, after both kinds have been learned."""
    lengths = {"short": 4, "long": 60}
    await depot.start(fake_per_token_ms=1, max_batch_size=8, **settings)
    kinds = ["short", "long"] * (count // 2)
    warm = [request_of(f"warm{i}", route=kind, max_tokens=lengths[kind]) for i, kind in enumerate(kinds[:16])]
    await depot.push(*warm)
    await depot.results(*(f"warm{i}" for i in range(16)))
    await depot.push(*(request_of(f"r{i}", route=kind, max_tokens=lengths[kind]) for i, kind in enumerate(kinds)))
    return await depot.results(*(f"r{i}" for i in range(count)))


async def test_a_backlog_rides_with_its_like(depot: Depot, request_of: Make) -> None:
    results = await mixed(depot, request_of, 64, order="length")
    alike = [len({tokens(result) for result in batch}) == 1 for batch in batches(results).values()]
    assert sum(alike) >= len(alike) - 2, "but for those at the edges"
    assert {result.status for result in results} == {"succeeded"}


async def test_by_arrival_they_are_mixed(depot: Depot, request_of: Make) -> None:
    results = await mixed(depot, request_of, 64, order="fifo")
    assert all(len({tokens(result) for result in batch}) == 2 for batch in batches(results).values())


async def test_what_is_learned_is_shared_with_all_workers_and_bounded_in_time(depot: Depot, request_of: Make) -> None:
    await mixed(depot, request_of, 16, order="length")

    async def shared() -> bool:
        return set(await depot.queue.lengths()) == {"route:short", "route:long"}

    await wait_until(shared)
    assert await depot.redis.pttl(depot.queue.keys.lengths) > 0
    other = await depot.start(worker_name="w2", order="length")

    async def known() -> bool:
        lengths = other._learner.lengths.lengths
        short, long = (lengths.predict(f"route:{name}", 1000).length for name in ("short", "long"))
        return short < 20 < long

    await wait_until(known)


async def test_a_long_one_among_many_short_is_not_passed_over_for_ever(depot: Depot, request_of: Make) -> None:
    await depot.start(fake_per_token_ms=2, max_batch_size=2, order="length")
    await depot.push(*(request_of(f"s{i}", max_tokens=4) for i in range(6)), request_of("long", max_tokens=400))
    pushed = 6
    while (answer := await depot.queue.results(["long"])) == [None]:
        assert pushed < 5000
        if await depot.redis.llen(depot.queue.keys.queue) < 16:
            await depot.push(*(request_of(f"s{pushed + i}", max_tokens=4) for i in range(8)))
            pushed += 8
    assert Result.model_validate_json(answer[0] or b"").status == "succeeded"


async def test_a_batch_is_no_heavier_than_it_may_be_and_a_heavy_one_is_full_at_once(
    depot: Depot, request_of: Make
) -> None:
    await depot.start(max_batch_size=16, max_batch_tokens=250, max_wait_ms=60_000)
    await depot.push(*(request_of(f"r{i}", max_tokens=90) for i in range(7)))

    await wait_until(lambda: _answered(depot, 6))
    found = await depot.queue.results([f"r{i}" for i in range(6)])
    results = [Result.model_validate_json(one) for one in found if one]

    sizes = [len(batch) for batch in batches(results).values()]
    assert sizes == [2, 2, 2], "two of some 95 tokens fit, three do not"
    assert {result.batch.trigger for result in results if result.batch} == {"full"}
    assert [status.state for status in await depot.queue.status(["r6"])] == ["waiting"], "it still has room for others"


async def _answered(depot: Depot, count: int) -> bool:
    return sum(found is not None for found in await depot.queue.results([f"r{i}" for i in range(7)])) >= count


async def test_one_heavier_than_a_whole_batch_runs_alone(depot: Depot, request_of: Make) -> None:
    await depot.start(max_batch_size=16, max_batch_tokens=100)
    await depot.push(request_of("heavy", max_tokens=500), request_of("light", max_tokens=4))
    heavy, light = await depot.results("heavy", "light")
    assert (heavy.status, light.status) == ("succeeded", "succeeded")
    assert heavy.batch is not None
    assert heavy.batch.size == 1
