"""What the gateway does while Redis is away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import openai as errors
import pytest
from openai import OpenAI
from tests.gateway.gateway_process import GatewayProcess
from tests.gateway.test_batches import line, over, records, start
from tests.redis_servers import Server
from tests.waiting import wait_until
from tests.worker_process import WorkerProcess

from busload_shared.queue import Queue


@pytest.mark.parametrize("keeps_its_data", [True, False], ids=["with its data", "empty"])
async def test_a_batch_outlives_a_redis_that_is_away_for_longer_than_a_call_waits(
    keeps_its_data: bool,
    tmp_path: Path,
    any_server: Server,
    start_gateway: Callable[..., GatewayProcess],
    start_worker: Callable[..., WorkerProcess],
    lone_queue: Queue,
) -> None:
    gateway = start_gateway(files_folder=tmp_path, batch_in_flight=8, patience_s=0.2)
    worker = await start_worker(fake_overhead_ms=20, max_batch_size=4).ready()
    with OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0) as client:
        batch = start(client, [line(f"r{i}") for i in range(200)])

        async def under_way() -> bool:
            return client.batches.retrieve(batch.id).request_counts.completed > 20

        await wait_until(under_way, what="some lines are answered")
        if keeps_its_data:
            with any_server.client() as redis:
                redis.save()
        any_server.stop()

        async def noticed() -> bool:
            return bool(gateway.lines(f"batch {batch.id} waits"))

        await wait_until(noticed, what="the batch waits")
        assert client.batches.retrieve(batch.id).status == "in_progress"
        any_server.start()
        ended = await over(client, batch.id)
        counts = ended.request_counts
        assert (ended.status, counts.completed, counts.failed) == ("completed", 200, 0), worker.log()
        answers = client.files.content(ended.output_file_id or "").text.splitlines()
        assert len(answers) == len(records(client, ended.output_file_id)) == 200, "none is written twice"


async def test_a_batch_that_is_cancelled_meanwhile_tells_of_each_line_that_was_under_way(
    tmp_path: Path, any_server: Server, start_gateway: Callable[..., GatewayProcess], lone_queue: Queue
) -> None:
    gateway = start_gateway(files_folder=tmp_path, batch_in_flight=4, patience_s=0.2)
    with OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0) as client:
        batch = start(client, [line(f"r{i}") for i in range(9)])

        async def waiting() -> bool:
            return (await lone_queue.info()).waiting == 4

        await wait_until(waiting, what="the first lines wait")
        with any_server.client() as redis:
            redis.save()
        any_server.stop()

        async def noticed() -> bool:
            return bool(gateway.lines(f"batch {batch.id} waits"))

        await wait_until(noticed, what="the batch waits")
        assert client.batches.cancel(batch.id).status == "cancelling"
        any_server.start()
        ended = await over(client, batch.id)
        assert (ended.status, ended.output_file_id) == ("cancelled", None)
        codes = [one["response"]["body"]["error"]["code"] for one in records(client, ended.error_file_id).values()]
        assert codes == ["cancelled"] * 4


@pytest.fixture
def redis_goes(any_server: Server) -> Iterator[Callable[[], None]]:
    """Stops the test's Redis, which is back for the next test."""
    yield any_server.stop
    any_server.reset()


def test_callers_are_told_503_once_the_patience_is_used_up(
    start_gateway: Callable[..., GatewayProcess], redis_goes: Callable[[], None]
) -> None:
    gateway = start_gateway(patience_s=0.1)
    redis_goes()
    with OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0, timeout=60) as client:
        for asked in ({"prompt": "a"}, {"prompt": ["a", "b", "c"]}, {"prompt": "a", "stream": True}):
            with pytest.raises(errors.InternalServerError) as told:
                client.completions.create(model="any", **asked)
            assert (told.value.status_code, told.value.code) == (503, "unavailable")
            assert told.value.response.headers["retry-after"] == "5"
    assert httpx.get(f"{gateway.url}/health/live").status_code == 200


async def test_callers_who_wait_are_told_503_when_redis_goes(
    start_gateway: Callable[..., GatewayProcess], lone_queue: Queue, redis_goes: Callable[[], None]
) -> None:
    gateway = start_gateway(patience_s=0.1)
    async with httpx.AsyncClient(timeout=60) as caller:
        call = asyncio.create_task(caller.post(f"{gateway.url}/v1/completions", json={"prompt": ["a", "b"]}))

        async def both_wait() -> bool:
            return (await lone_queue.info()).waiting == 2

        await wait_until(both_wait, what="both wait")
        redis_goes()
        answer = await call
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")
