"""Every row is answered for itself: bad, cancelled, late and poisonous rows cost their neighbours nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.waiting import wait_until
from tests.worker.conftest import QUEUE, Depot

Make = Callable[..., dict[str, Any]]


async def test_junk_between_good_requests_becomes_dead_letters_and_the_good_are_answered(
    depot: Depot, request_of: Make
) -> None:
    junk: list[bytes] = [b"", b"not json", b"\x00\xff\xfe", b"[" * 5000, b'{"id":7,"prompt":"x"}', b'{"prompt":"x"}']
    await depot.push(request_of("a"), *junk, request_of("b"))
    await depot.start()

    results = await depot.results("a", "b")
    await depot.settled()
    letters = await depot.queue.dead_letters()

    assert [r.status for r in results] == ["succeeded", "succeeded"]
    assert sorted(letter.payload_bytes for letter in letters) == sorted(junk)
    assert {letter.code for letter in letters} == {"invalid_request"}


async def test_a_request_with_a_readable_id_and_a_wrong_field_gets_an_error_that_names_it(depot: Depot) -> None:
    await depot.start()
    await depot.push({"id": "a", "prompt": "x", "max_tokens": 3.5}, {"id": "b", "prompt": "x", "tempature": 1})

    wrong, unknown = await depot.results("a", "b")

    assert (wrong.status, unknown.status) == ("failed", "failed")
    assert wrong.error is not None
    assert unknown.error is not None
    assert wrong.error.message.startswith("max_tokens:")
    assert unknown.error.message.startswith("tempature:")


async def test_a_payload_over_the_limit_is_answered_and_the_queue_goes_on(depot: Depot, request_of: Make) -> None:
    await depot.start()
    await depot.push(request_of("big", prompt="x" * 10_000_000), request_of("small"))

    big, small = await depot.results("big", "small")

    assert small.status == "succeeded"
    assert big.error is not None
    assert "10000" in big.error.message
    assert "1048576" in big.error.message


async def test_the_same_id_twice_is_one_request(depot: Depot, request_of: Make) -> None:
    await depot.push(request_of("a"), request_of("a"), request_of("a", prompt="another"))
    await depot.start()

    result = await depot.result("a")
    await depot.push(request_of("a"))
    await depot.settled()

    assert await depot.result("a") == result
    assert (await depot.queue.info()).counters["succeeded"] == 1


async def test_a_header_that_names_another_id_reaches_nobody_elses_result(depot: Depot, request_of: Make) -> None:
    await depot.push(b"@1.000 0 0  victim " + json.dumps(request_of("mine")).encode(), request_of("victim"))
    await depot.start()

    mine, victim = await depot.results("mine", "victim")

    assert mine.status == "failed"
    assert victim.status == "succeeded"
    assert "victim" in victim.text


async def test_a_refused_row_costs_its_neighbours_nothing_and_the_engine_is_not_restarted(
    depot: Depot, request_of: Make
) -> None:
    worker = await depot.start(max_batch_size=4, max_wait_ms=1000)
    bad = request_of("bad", metadata={"fake": "refuse"})
    await depot.push(*[request_of(name) for name in "abc"], bad)

    results = await depot.results(*"abc", "bad")

    assert [r.status for r in results] == ["succeeded"] * 3 + ["failed"]
    assert results[0].batch is not None
    assert worker.vitals.engine_restarts == 0


async def test_a_request_that_kills_the_engine_is_convicted_alone_and_the_others_are_answered(
    depot: Depot, request_of: Make
) -> None:
    worker = await depot.start(max_batch_size=8, max_wait_ms=1000)
    names = [f"r{i}" for i in range(7)]
    await depot.push(*[request_of(name) for name in names], request_of("bad", metadata={"fake": "crash"}))

    results = await depot.results(*names, "bad")
    await depot.settled()
    letters = await depot.queue.dead_letters()

    assert [r.status for r in results] == ["succeeded"] * 7 + ["failed"]
    assert results[-1].error is not None
    assert results[-1].error.code == "poison"
    assert [(letter.id, letter.code) for letter in letters] == [("bad", "poison")]
    assert worker.vitals.engine_restarts <= 6  # log2(8) + 2 deaths, and one to spare


async def test_a_batch_that_raises_is_run_again_in_halves_without_an_engine_restart(
    depot: Depot, request_of: Make
) -> None:
    worker = await depot.start(max_batch_size=4, max_wait_ms=1000)
    await depot.push(*[request_of(name) for name in "abc"], request_of("bad", metadata={"fake": "error"}))

    results = await depot.results(*"abc", "bad")

    assert [r.status for r in results] == ["succeeded"] * 3 + ["failed"]
    assert worker.vitals.engine_restarts == 0


async def test_an_engine_that_drops_a_row_is_found_out_and_the_row_is_not_lost(depot: Depot, request_of: Make) -> None:
    await depot.start(max_batch_size=4, max_wait_ms=1000)
    await depot.push(*[request_of(name) for name in "abc"], request_of("gone", metadata={"fake": "drop"}))

    results = await depot.results(*"abc", "gone")

    assert [r.status for r in results] == ["succeeded"] * 3 + ["failed"]


async def test_a_deadline_that_passed_before_a_batch_took_it_is_answered_as_expired(
    depot: Depot, request_of: Make
) -> None:
    await depot.start(max_wait_ms=300)
    await depot.push(request_of("late", ttl_s=0.1), request_of("past", deadline=1.0), request_of("fine", ttl_s=60))

    results = await depot.results("late", "past", "fine")

    assert [r.status for r in results] == ["expired", "expired", "succeeded"]


async def test_a_cancel_of_a_running_row_is_answered_while_its_neighbour_runs_on(
    depot: Depot, request_of: Make
) -> None:
    await depot.start(max_batch_size=2, max_wait_ms=5000, fake_per_token_ms=20)
    await depot.push(request_of("stop", max_tokens=200), request_of("go", max_tokens=150))

    async def running() -> bool:
        return (await depot.queue.status(["stop"]))[0].state == "running"

    await wait_until(running, what="the row runs")
    assert await depot.queue.cancel("stop", result=b"{}", ttl_s=60) == "running"
    stopped = await depot.result("stop")
    neighbour = (await depot.queue.status(["go"]))[0]

    assert stopped.status == "cancelled"
    assert neighbour.state == "running"
    assert (await depot.result("go")).status == "succeeded"


async def test_a_cancel_while_no_worker_is_up_is_honoured(depot: Depot, request_of: Make) -> None:
    assert await depot.queue.cancel("a", result=b"{}", ttl_s=60) == "unknown"
    await depot.push(request_of("a"), request_of("b"))
    await depot.start()

    cancelled, other = await depot.results("a", "b")

    assert (cancelled.status, other.status) == ("cancelled", "succeeded")


async def test_the_counts_add_up(depot: Depot, request_of: Make) -> None:
    await depot.queue.cancel("c", result=b"{}", ttl_s=60)
    rows = [
        request_of("a"),
        request_of("b", metadata={"fake": "refuse"}),
        request_of("c"),
        request_of("d", deadline=1.0),
    ]
    await depot.push(*rows, b"junk")
    await depot.start()
    await depot.results(*"abcd")
    await depot.settled()

    counters = (await depot.queue.info()).counters

    assert [counters.get(s, 0) for s in ("succeeded", "failed", "cancelled", "expired")] == [1, 2, 1, 1]


async def test_a_list_that_is_none_does_not_end_the_worker(depot: Depot, request_of: Make) -> None:
    await depot.start()
    await depot.redis.set(QUEUE, "not a list")
    await depot.redis.delete(QUEUE)
    await depot.push(request_of("a"))

    assert (await depot.result("a")).status == "succeeded"
