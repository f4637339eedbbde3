"""A gateway needs no more of Redis than the role `producer` has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import openai as errors
import pytest
from openai import OpenAI
from tests.gateway.gateway_process import GatewayProcess
from tests.gateway.test_batches import line, over, records, start
from tests.redis_servers import Servers
from tests.trust.guarded import Guarded, guarded_by
from tests.trust.test_acl_work import HIDDEN_FROM_PRODUCERS
from tests.waiting import wait_until
from tests.worker_process import WorkerProcess

from busload.gateway.access_log import CALLER_GONE


@pytest.fixture(params=["7.0", "6.2"])
def guarded(request: pytest.FixtureRequest, redis_servers: Servers) -> Iterator[Guarded]:
    """A Redis with the users of `ops/redis`, one for each of its two files."""
    with guarded_by(redis_servers, request.param) as server:
        yield server


async def test_a_producer_is_enough_for_a_gateway(guarded: Guarded, tmp_path: Path) -> None:
    worker = WorkerProcess(guarded.url_for("worker"), max_wait_ms=5)
    gateway = GatewayProcess(guarded.url_for("producer"), files_folder=tmp_path, patience_s=20)
    try:
        await worker.ready()
        with OpenAI(base_url=f"{gateway.listening().url}/v1", api_key="none", max_retries=0, timeout=60) as client:

            async def listed() -> bool:
                return [model.id for model in client.models.list()] == ([] if guarded.is_old else ["fake"])

            await wait_until(listed, what="the worker is seen")
            asked = {"model": "fake", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
            assert client.chat.completions.create(**asked).choices[0].message.content.startswith("echo:")
            assert len(client.completions.create(model="fake", prompt=["a", "b"], max_tokens=4).choices) == 2
            batch = await over(client, start(client, [line(f"r{i}") for i in range(20)]).id)
            assert (batch.status, batch.request_counts.completed) == ("completed", 20)
            assert len(records(client, batch.output_file_id)) == 20
            with pytest.raises(errors.APITimeoutError):
                client.completions.create(
                    model="fake", prompt="a", timeout=0.5, extra_body={"metadata": {"fake": "hang"}}
                )

        async def told() -> bool:
            return any(line.get("code") == CALLER_GONE for line in gateway.lines("call"))

        await wait_until(told, what="the caller who left is noticed, and his request cancelled")
        assert guarded.refusals() <= HIDDEN_FROM_PRODUCERS
    finally:
        gateway.close()
        worker.close()
