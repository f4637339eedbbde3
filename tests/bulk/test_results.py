"""`busload results` and `client.results_frame`: every state told apart, in every format, with an analyst's rights."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.bulk.conftest import QUEUE, Command
from tests.conftest import get_server
from tests.queue.steps import answer, board, deliver, submit
from tests.redis_servers import WANTED, Servers
from tests.trust.guarded import Guarded

from busload import AsyncClient
from busload.analysis.columns import COLUMNS, NAMES
from busload_shared.archive import Archive, Seen
from busload_shared.connection import open_redis
from busload_shared.queue import Queue

STATES = ["unknown", "waiting", "running", "answered", "expired"]


async def one_in_each_state(queue: Queue) -> None:
    """Each request's id is the state it is in."""
    await submit(queue, "expired", "answered")
    await deliver(queue, await board(queue, "b1"))
    await queue.redis.delete(queue.keys.result("expired"))
    await submit(queue, "running")
    await board(queue, "b2")
    await submit(queue, "waiting")


@pytest.fixture
async def states(any_redis_url: str) -> AsyncIterator[Queue]:
    queue = Queue(open_redis(any_redis_url), QUEUE)
    await one_in_each_state(queue)
    yield queue
    await queue.redis.aclose()


@pytest.fixture(params=list(WANTED))
def guarded(request: pytest.FixtureRequest, redis_servers: Servers) -> Iterator[Guarded]:
    get_server(redis_servers, request.param)  # skips where it is not installed
    server = Guarded(redis_servers.binaries[request.param], request.param)
    server.start()
    yield server
    server.remove()


async def test_every_state_is_told_as_the_queue_itself_tells_it(states: Queue) -> None:
    archive = Archive(states.redis, QUEUE)
    seen = await archive.look(STATES)
    assert [one.state for one in seen] == STATES == [one.state for one in await states.status(STATES)]
    assert [one.stored is not None for one in seen] == [False, False, False, True, False]
    assert await archive.look([]) == []


async def test_an_analyst_sees_every_state_and_may_not_scan(guarded: Guarded, busload: Command) -> None:
    queue = Queue(open_redis(guarded.url_for("operator")), QUEUE)
    await one_in_each_state(queue)
    await queue.redis.aclose()
    url = guarded.url_for("analyst")

    done = busload("results", *STATES, "-o", "-", redis_url=url)

    assert done.returncode == 1, done.stderr
    assert [json.loads(line)["state"] for line in done.stdout.splitlines()] == STATES
    assert guarded.refusals() == set()
    refused = busload("results", "--pattern", "*", "-o", "-", redis_url=url)
    assert refused.returncode == 3
    assert "ACL" in refused.stderr


async def test_without_the_right_to_states_only_answers_are_told(guarded: Guarded) -> None:
    queue = Queue(open_redis(guarded.url_for("operator")), QUEUE)
    await one_in_each_state(queue)
    await queue.redis.execute_command("ACL", "SETUSER", "narrow", "on", ">pw", "~{" + QUEUE + "}:result:*", "+mget")
    await queue.redis.aclose()
    archive = Archive(open_redis(guarded.url.replace("redis://", "redis://narrow:pw@")), QUEUE)
    seen = await archive.look(STATES)
    await archive.redis.aclose()
    assert [one.state for one in seen] == [None, None, None, "answered", None]
    assert not archive.reads_states


@pytest.mark.usefixtures("states")
def test_all_formats_hold_the_same(busload: Command, tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("\n".join(STATES) + "\n\n", encoding="utf-8")
    for target in ("r.jsonl", "r.csv", "r.parquet"):
        done = busload("results", "--ids-file", "ids.txt", "-o", target)
        assert done.returncode == 1, done.stderr
        assert "5 ids: 1 answered, 1 expired, 1 running, 1 unknown, 1 waiting" in done.stderr
    lines = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text(encoding="utf-8").splitlines()]
    rows = list(csv.DictReader(io.StringIO((tmp_path / "r.csv").read_text(encoding="utf-8"))))
    table = pq.read_table(tmp_path / "r.parquet").to_pylist()
    assert list(rows[0]) == list(table[0]) == list(NAMES)
    for line, row, record in zip(lines, rows, table, strict=True):
        assert line["id"] == row["id"] == record["id"] == row["state"]
        assert {name for name in NAMES if row[name]} <= {name for name in NAMES if record[name] is not None}
        assert line.get("status") == record["status"]


@pytest.mark.usefixtures("states")
def test_a_pattern_finds_results_by_their_ids_and_a_table_shows_them(busload: Command) -> None:
    found = busload("results", "--pattern", "answ*", "--json")
    assert found.returncode == 0, found.stderr
    assert [json.loads(line)["id"] for line in found.stdout.splitlines()] == ["answered"]
    assert "walks all" in found.stderr
    shown = busload("results", *STATES)
    assert all(state in shown.stdout for state in STATES)
    assert busload("results").returncode == 2
    assert busload("results", "a", "-o", "r.xlsx").returncode == 2


async def test_a_row_that_is_answered_between_two_looks_is_no_lost_one(any_queue: Queue) -> None:
    """Its flight has ended when the second look comes, and its result is there."""
    await submit(any_queue, "a")
    claim = await board(any_queue, "b1")

    class Late(Archive):
        async def _in_flight(self, states: object) -> list[bool]:
            await deliver(any_queue, claim)
            return await super()._in_flight(states)  # type: ignore[arg-type]

    (seen,) = await Late(any_queue.redis, any_queue.keys.queue).look(["a"])
    assert seen == Seen("answered", answer(claim.seats[0]).result)


async def test_a_frame_has_typed_columns_and_a_row_for_each_id(states: Queue, any_redis_url: str) -> None:
    async with AsyncClient(any_redis_url) as client:
        frame = await client.results_frame([*STATES, "answered"])
        empty = await client.results_frame([])
    assert list(frame.columns) == list(empty.columns) == list(NAMES)
    assert list(frame.state) == [*STATES, "answered"]
    kinds = {"text": "string", "whole": "Int64", "number": "Float64", "time": "datetime64[ms, UTC]"}
    for column in COLUMNS:
        assert str(frame[column.name].dtype) == str(empty[column.name].dtype) == kinds[column.kind]
