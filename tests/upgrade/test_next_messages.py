"""What this version makes of what a later one writes: it takes what it knows, or says which side must be upgraded."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.queue.steps import body
from tests.redis_servers import Server
from tests.upgrade.conftest import QUEUE
from tests.upgrade.speaking import LETTER, RESULT, WORKER
from tests.worker_process import WorkerProcess

from busload import AsyncClient, BusloadError
from busload.operating.reaching import queue_on
from busload_shared.keys import Keys
from busload_shared.queue import Queue
from busload_shared.replies import DeadLetter
from busload_shared.request import Request
from busload_shared.result import Result

KEYS = Keys(QUEUE)
Start = Callable[..., WorkerProcess]


@pytest.fixture
async def client(any_server: Server) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(any_server.url, patience_s=5) as client:
        yield client


@pytest.fixture
async def queue(any_server: Server) -> AsyncIterator[Queue]:
    async with queue_on(any_server.url, QUEUE, patience_s=1) as queue:
        yield queue


def with_news(value: Any) -> Any:
    """The same with a field more in every object."""
    if isinstance(value, dict):
        return {name: with_news(one) for name, one in value.items()} | {"news": {"of": ["later"]}}
    return [with_news(one) for one in value] if isinstance(value, list) else value


def later(body: dict[str, Any], **closed: Any) -> str:
    """As a later version would write it; `closed` are parts that may not have more fields."""
    return json.dumps(with_news(body) | closed, separators=(",", ":"))


async def test_a_request_with_a_later_field_is_refused_by_its_name_and_its_neighbours_are_answered(
    any_server: Server, start: Start, client: AsyncClient, queue: Queue
) -> None:
    await queue.redis.lpush(QUEUE, body("plain", max_tokens=2), body("later", beam_width=4))
    await start("newer", any_server.url, max_batch_size=2).ready()
    assert (await client.result("plain", timeout_s=30)).status == "succeeded"
    refused = await client.result("later", timeout_s=30)
    assert refused.error is not None
    assert (refused.error.code, refused.error.message) == (
        "invalid_request",
        "beam_width: Extra inputs are not permitted",
    )
    (letter,) = await queue.dead_letters()
    assert json.loads(letter.payload)["beam_width"] == 4  # `busload dead redrive` runs it once workers know the field


async def test_a_result_with_later_fields_is_read_as_far_as_it_is_known(client: AsyncClient, queue: Queue) -> None:
    closed = {name: RESULT[name] for name in ("metadata", "trace")}  # the request's, handed back as they came
    await queue.redis.set(KEYS.result("r-1"), later(RESULT, **closed), ex=60)
    assert await client.result("r-1", timeout_s=5) == Result.model_validate_json(json.dumps(RESULT))
    assert (await client.status("r-1")).state == "answered"


@pytest.mark.parametrize(
    ("place", "value"),
    [("status", "postponed"), ("error.code", "overloaded"), ("batch.trigger", "tide"), ("v", 2)],
)
async def test_a_result_with_a_later_word_is_told_as_what_it_is_and_spoils_no_other(
    client: AsyncClient, queue: Queue, place: str, value: object
) -> None:
    stored: dict[str, Any] = json.loads(json.dumps(RESULT)) | {"error": {"code": "poison", "message": "m"}}
    part, _, name = place.rpartition(".")
    (stored[part] if part else stored)[name] = value
    await queue.redis.set(KEYS.result("r-1"), json.dumps(stored), ex=60)
    await queue.redis.set(KEYS.result("r-2"), json.dumps(RESULT | {"id": "r-2"}), ex=60)
    with pytest.raises(BusloadError, match=rf"r-1: this version cannot read .*{place}.*; upgrade busload here"):
        await client.result("r-1", timeout_s=5)
    assert (await client.result("r-2", timeout_s=5)).status == "succeeded"


async def test_a_later_worker_counter_and_letter_are_shown_as_far_as_they_are_known(
    client: AsyncClient, queue: Queue
) -> None:
    redis = queue.redis
    await redis.set(KEYS.worker("w"), later(WORKER, state="docking"), px=15_000)
    await redis.zadd(KEYS.workers, {"w": 9e15})
    await redis.hset(KEYS.stats, mapping={"succeeded": 3, "postponed": 2, "tide": "high"})
    await redis.lpush(KEYS.dead, later(LETTER | {"id": "x", "payload_is_base64": False}))
    info = await client.queue_info()
    assert [(one.name, one.state, one.rows_per_s) for one in info.workers] == [("w", "docking", 5.5)]
    assert (info.rows_per_s, info.counters) == (None, {"succeeded": 3, "postponed": 2})
    (letter,) = await queue.dead_letters()
    assert isinstance(letter, DeadLetter)
    assert await queue.redrive(letter)
    assert info.dead == 1
    assert await redis.llen(KEYS.dead) == 0


def test_what_this_version_sends_unasked_was_known_before() -> None:
    """A client that uses no new field writes none: an older worker takes all it sends."""
    assert json.loads(Request(id="r", prompt="p").model_dump_json(exclude_defaults=True)) == {"id": "r", "prompt": "p"}
