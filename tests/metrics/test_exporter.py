"""The exporter's series: what each queue holds and has seen, and what is shown when Redis does not answer."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator
from typing import get_args

import pytest
from tests.metrics.scraping import Series, read, scrape
from tests.queue.steps import board, bury, deliver, push, submit
from tests.redis_servers import Server

from busload.metrics.__main__ import main
from busload.metrics.exporter import registry_of
from busload.metrics.lookout import Lookout
from busload.metrics.settings import read_settings
from busload_shared.connection import open_redis
from busload_shared.errors import SettingsInvalid
from busload_shared.queue import Queue
from busload_shared.replies import WorkerInfo, WorkerState
from busload_shared.result import Result

QUEUE = "busload:default"
NOT_NOTHING = {"busload_redis_up", "busload_redis_memory_used_bytes", "busload_redis_memory_limit_bytes"}
"""What is not 0 for an empty queue."""


class Post:
    """A queue, and a lookout over it whose every scrape is new."""

    def __init__(self, url: str, *queues: str, kept_s: float = 0.0) -> None:
        self.queue = Queue(open_redis(url), QUEUE)
        self.lookout = Lookout(url, queues or (QUEUE,), kept_s=kept_s)
        self.moved: set[str] = set()
        self.at_first: Series = {}

    async def scrape(self) -> Series:
        seen = await asyncio.to_thread(scrape, registry_of(self.lookout))
        self.at_first = self.at_first or seen
        self.moved |= {name for name, value in seen.items() if value != self.at_first.get(name)}
        return seen

    async def close(self) -> None:
        await self.lookout.close()
        await self.queue.redis.aclose()


@pytest.fixture
async def post(any_redis_url: str) -> AsyncIterator[Post]:
    post = Post(any_redis_url)
    yield post
    await post.close()


async def test_an_empty_queue_shows_every_series_at_0(post: Post) -> None:
    seen = await post.scrape()
    assert {name for name, value in seen.items() if value} == NOT_NOTHING | {"busload_queue_up"}


async def test_every_series_moves_and_none_comes_later(post: Post, any_server: Server) -> None:
    await post.scrape()
    await everything(post.queue, post)
    any_server.config_set("maxmemory", 2**30)
    seen = await post.scrape()
    assert set(seen) == set(post.at_first)
    always = {"busload_redis_up", "busload_queue_up"}  # test_what_redis_does_not_tell_is_not_shown
    assert set(seen) - post.moved == always


async def everything(queue: Queue, post: Post) -> None:
    """All that can happen to requests and workers."""
    for name in (*get_args(WorkerState), "of the future"):
        worker = WorkerInfo(name=name, state=name, max_batch_size=8, rows_per_s=2.0)
        await queue.heartbeat(worker, ttl_s=60)
    await submit(queue, "good")
    await deliver(queue, await board(queue, "b1", lease=60_000))
    await push(queue, "good")
    await submit(queue, "bad")
    await bury(queue, await board(queue, "b2", lease=60_000))
    await submit(queue, "unwanted", "late")
    for name, status in (("unwanted", "cancelled"), ("late", "expired")):
        answer = Result(id=name, status=status, attempts=0).model_dump_json().encode()  # type: ignore[arg-type]
        if status == "cancelled":
            await queue.cancel(name, result=answer, ttl_s=60)
        else:
            await queue.expire({name: answer}, ttl_s=60)
    await submit(queue, "silent")
    await board(queue, "b3", lease=1)
    await asyncio.sleep(0.01)
    assert await queue.reclaim()
    await board(queue, "b4", lease=60_000)
    await queue.release("b4")
    await submit(queue, "riding")
    await post.scrape()
    await board(queue, "b5", lease=60_000)  # a fresh one, or the suspect: they take turns
    await board(queue, "b6", lease=60_000)
    await submit(queue, "waits")
    await asyncio.sleep(0.005)


async def test_arrivals_only_grow_wherever_requests_go(post: Post) -> None:
    async def arrivals() -> float:
        return (await post.scrape())["busload_queue_arrivals_total"]

    await submit(post.queue, "a", "b")
    assert await arrivals() == 2
    claim = await board(post.queue, "b1", lease=60_000)
    assert await arrivals() == 2
    await deliver(post.queue, claim)
    assert await arrivals() == 2
    await push(post.queue, "a")
    assert await arrivals() == 3
    await submit(post.queue, "c")
    await board(post.queue, "b2", lease=60_000)
    assert await arrivals() == 4


async def test_what_redis_does_not_tell_is_not_shown(post: Post, any_server: Server) -> None:
    await post.scrape()
    any_server.stop()
    assert await post.scrape() == {"busload_redis_up": 0.0, "busload_queue_up": 0.0}
    any_server.start()
    assert (await post.scrape())["busload_queue_up"] == 1


async def test_a_redis_that_says_nothing_keeps_no_scrape_waiting(
    post: Post, any_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    await post.scrape()
    monkeypatch.setattr("busload.metrics.lookout.LONGEST_S", 0.1)
    any_server.pause()
    assert await post.scrape() == {"busload_redis_up": 0.0, "busload_queue_up": 0.0}
    any_server.resume()


async def test_a_key_of_another_kind_hides_its_own_queue_only(any_redis_url: str) -> None:
    post = Post(any_redis_url, QUEUE, "other")
    await post.queue.redis.set(QUEUE, "no list")
    text = await asyncio.to_thread(scrape_text, post.lookout)
    assert 'busload_queue_up{queue="busload:default"} 0.0' in text
    assert 'busload_queue_up{queue="other"} 1.0' in text
    assert 'busload_queue_requests{place="waiting",queue="other"} 0.0' in text
    await post.close()


def scrape_text(lookout: Lookout) -> str:
    from prometheus_client import generate_latest

    return generate_latest(registry_of(lookout)).decode()


async def test_two_queues_share_each_family(any_redis_url: str) -> None:
    post = Post(any_redis_url, QUEUE, "other")
    text = await asyncio.to_thread(scrape_text, post.lookout)
    assert text.count("# TYPE busload_queue_requests gauge") == 1
    await post.close()


async def test_a_look_is_kept_however_many_scrape(any_redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    post = Post(any_redis_url, kept_s=3600)
    looks = 0
    look = post.lookout._look

    async def counted() -> object:
        nonlocal looks
        looks += 1
        return await look()

    monkeypatch.setattr(post.lookout, "_look", counted)
    await asyncio.gather(*(post.scrape() for _ in range(4)))
    assert looks == 1
    await post.close()


def test_a_process_serves_them_until_it_is_told_to_stop(any_redis_url: str) -> None:
    command = [sys.executable, "-m", "busload.metrics", "--redis-url", any_redis_url, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("metrics of busload:default on http://127.0.0.1:")
        with urllib.request.urlopen(line.split()[-1], timeout=20) as answer:
            assert read(answer.read().decode())["busload_queue_up"] == 1
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0


def test_settings_come_from_flags_then_the_environment_then_defaults() -> None:
    plain = read_settings([], {})
    assert (plain.redis_url, plain.queues, plain.port) == ("redis://127.0.0.1:6379/0", ("busload:default",), 9108)
    environment = {"BUSLOAD_QUEUE": "a, b", "BUSLOAD_EXPORTER_PORT": "1", "BUSLOAD_REDIS_URL": "redis://:secret@r/0"}
    told = read_settings([], environment)
    assert (told.queues, told.port) == (("a", "b"), 1)
    assert "secret" not in repr(told)
    chosen = read_settings(["--queue", "c", "--queue", "d", "--port", "0", "--kept-s", "0"], environment)
    assert (chosen.queues, chosen.port, chosen.kept_s) == (("c", "d"), 0, 1.0)
    with pytest.raises(SettingsInvalid, match="write a number from 0"):
        read_settings(["--port", "http"], {})


def test_a_wrong_queue_and_a_missing_library_are_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["--queue", "{wrong}", "--port", "0"]) == 2
    assert "queue name '{wrong}'" in capsys.readouterr().err
    monkeypatch.delitem(sys.modules, "busload_shared.metrics.serving")
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    assert main(["--port", "0"]) == 2
    assert 'pip install "busload[metrics]"' in capsys.readouterr().err
