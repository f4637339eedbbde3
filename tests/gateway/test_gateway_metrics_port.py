"""The metrics port of a real gateway process."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress

import httpx
import pytest
from openai import BadRequestError, OpenAI
from tests.gateway.gateway_process import GatewayProcess
from tests.metrics.scraping import Series, read
from tests.waiting import wait_until
from tests.worker_process import WorkerProcess


def a_port() -> int:
    """A free one below those that the kernel gives to connections, so that none takes it meanwhile."""
    while True:
        with socket.socket() as sock, suppress(OSError):
            sock.bind(("127.0.0.1", random.randrange(20_000, 32_000)))
            return int(sock.getsockname()[1])


async def test_calls_move_the_series_of_a_gateway(
    start_gateway: Callable[..., GatewayProcess], start_worker: Callable[..., WorkerProcess]
) -> None:
    port = a_port()
    gateway = start_gateway(metrics_port=port)
    await start_worker().ready()

    def scrape() -> Series:
        text = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=30).text
        assert 'queue="busload:default"' in text
        return read(text)

    async def series(name: str, value: float) -> Series:
        """All, once one has this value."""
        found = scrape()
        return found if found[name] == value else {}

    assert set(scrape().values()) == {0.0}
    with OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0) as client:
        assert len(client.completions.create(model="fake", prompt=["a", "b"], max_tokens=3).choices) == 2
        with pytest.raises(BadRequestError):
            client.completions.create(model="fake", prompt="")
    await wait_until(lambda: series("busload_gateway_calls_total{completions}", 2), what="both calls are over")
    async with httpx.AsyncClient(timeout=60) as caller:
        body = {"prompt": "a", "metadata": {"fake": "hang"}}
        call = asyncio.create_task(caller.post(f"{gateway.url}/v1/completions", json=body))
        await wait_until(lambda: series("busload_gateway_running_calls", 1), what="the call is under way")
        call.cancel()
        moved = await wait_until(
            lambda: series("busload_gateway_answers_total{none}", 1), what="the caller who left is counted"
        )
    assert {name: value for name, value in moved.items() if value and "seconds_sum" not in name} == {
        "busload_gateway_calls_total{completions}": 3,
        "busload_gateway_answers_total{2xx}": 1,
        "busload_gateway_answers_total{4xx}": 1,
        "busload_gateway_answers_total{none}": 1,
        "busload_gateway_rejects_total{invalid_value}": 1,
        "busload_gateway_call_seconds_count": 3,
        "busload_gateway_tokens_total": 6,
    }


def test_a_port_that_is_taken_ends_the_start_and_names_the_cure(
    any_redis_url: str, start_gateway: Callable[..., GatewayProcess]
) -> None:
    taken = start_gateway().url.rpartition(":")[2]
    second = GatewayProcess(any_redis_url, metrics_port=taken)
    try:
        assert second.ended() == 2
        assert "choose others with BUSLOAD_GATEWAY_METRICS_HOST and BUSLOAD_GATEWAY_METRICS_PORT" in second.log()
    finally:
        second.close()


def test_without_the_library_it_says_what_to_install() -> None:
    hidden = "import sys; sys.modules['prometheus_client'] = None; from busload.gateway.__main__ import main"
    settings = {"BUSLOAD_GATEWAY_METRICS_PORT": "1", "BUSLOAD_GATEWAY_PORT": "0"}
    command = [sys.executable, "-c", f"{hidden}; sys.exit(main([]))"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=os.environ | settings)
    assert ended.returncode == 2
    assert 'pip install "busload[metrics]"' in ended.stderr
