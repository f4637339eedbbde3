"""Client on a real Redis: AsyncClient's promises for threads, forked children, Ctrl-C and the end of a process."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.queue.desk import Desk
from tests.redis_servers import Server

from busload import (
    AsyncClient,
    BusloadUnavailable,
    Client,
    QueueFull,
    RequestInvalid,
    RequestUnknown,
    ResultTimeout,
    Submission,
)

QUEUE = "busload:test"


@pytest.fixture
def client(any_redis_url: str) -> Iterator[Client]:
    with Client(any_redis_url, queue=QUEUE) as client:
        yield client


@pytest.fixture
def worker(any_redis_url: str) -> Iterator[None]:
    """A desk that answers all that comes, in a thread of its own."""
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        async with Desk(any_redis_url, QUEUE) as desk:
            await desk.serve()

    task = loop.create_task(serve())

    def run() -> None:
        loop.run_until_complete(asyncio.wait([task]))
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    yield
    while thread.is_alive():  # a cancel may be lost in redis-py before Python 3.12
        if not loop.is_closed():
            loop.call_soon_threadsafe(task.cancel)
        thread.join(0.05)


def run_python(code: str, url: str, *, timeout_s: float = 30.0) -> subprocess.CompletedProcess[str]:
    """Run a script with `url` and QUEUE set."""
    script = f"url, queue = {url!r}, {QUEUE!r}\n{textwrap.dedent(code)}"
    return subprocess.run(
        [sys.executable, "-X", "dev", "-c", script], capture_output=True, text=True, timeout=timeout_s, check=False
    )


def test_it_has_every_method_of_the_async_client() -> None:
    for name, method in inspect.getmembers(AsyncClient, inspect.isfunction):
        if not name.startswith("_"):
            assert list(inspect.signature(method).parameters) == list(
                inspect.signature(getattr(Client, name)).parameters
            ), name


@pytest.mark.usefixtures("worker")
def test_generate_gives_the_answer(client: Client) -> None:
    assert client.generate(prompt="Hello", max_tokens=3, timeout_s=20).text == "Hello!"


@pytest.mark.usefixtures("worker")
def test_submit_and_wait_later(client: Client) -> None:
    sent = client.submit_many({"id": f"r{i}", "prompt": f"{i}"} for i in range(300))
    assert sent[0] == Submission("r0", "queued")
    texts = {result.id: result.text for result in client.as_completed([one.id for one in sent], 20)}
    assert texts == {f"r{i}": f"{i}!" for i in range(300)}
    assert [result.text for result in client.results(["r1", "r0"]) if result] == ["1!", "0!"]
    assert client.result("r7").text == "7!"
    assert client.status("r7").state == "answered"
    assert [status.state for status in client.statuses(["r1", "nobody"])] == ["answered", "unknown"]
    assert client.cancel("r7") == "answered"
    assert client.queue_info().waiting == 0


@pytest.mark.usefixtures("worker")
def test_many_threads_share_one_client_and_one_background_thread(client: Client) -> None:
    before = threading.active_count()
    with ThreadPoolExecutor(32) as pool:
        texts = list(pool.map(lambda i: client.generate(prompt=f"{i}", timeout_s=20).text, range(200)))
    assert texts == [f"{i}!" for i in range(200)]
    assert [thread.name for thread in threading.enumerate()].count("busload") == 1
    assert threading.active_count() <= before + 1


def test_errors_are_those_of_the_async_client(any_redis_url: str) -> None:
    with Client(any_redis_url, queue=QUEUE, max_queue_length=1) as client:
        with pytest.raises(RequestInvalid, match="max_tokens"):
            client.submit(prompt="p", max_tokens=0)
        client.submit(id="a", prompt="p")
        with pytest.raises(QueueFull, match="1 requests wait and the limit is 1"):
            client.submit(prompt="p")
        with pytest.raises(RequestUnknown):
            client.result("nobody")
        with pytest.raises(ResultTimeout, match="it is waiting"):
            client.result("a", 0.05)
        with pytest.raises(ResultTimeout, match="1 ids have no result"):
            list(client.as_completed(["a"], 0.05))


def test_redis_away_is_said_in_time() -> None:
    with (
        Client("redis://127.0.0.1:1/0", patience_s=0.1) as client,
        pytest.raises(BusloadUnavailable, match="see that it runs"),
    ):
        client.submit(prompt="p")


def test_ctrl_c_in_a_waiting_call_returns_at_once(client: Client) -> None:
    client.submit(id="a", prompt="p")
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        client.result("a")
    assert time.monotonic() - began < 5
    timer.join()
    assert client.status("a").state == "waiting"
    assert client._client._wiring is not None
    assert not client._client._wiring.waiting._futures


def test_ctrl_c_while_results_come_in_leaves_nothing_behind(client: Client) -> None:
    client.submit(id="a", prompt="p")
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        next(client.as_completed(["a"]))
    timer.join()
    client.status("a")
    assert client._client._wiring is not None
    assert not client._client._wiring.waiting._futures


@pytest.mark.usefixtures("worker")
def test_parent_and_forked_child_both_go_on(any_redis_url: str) -> None:
    code = """
    import os, sys
    from busload import Client
    client = Client(url, queue=queue)
    assert client.generate(prompt="before", timeout_s=20).text == "before!"
    child = os.fork()
    if child == 0:
        assert client.generate(prompt="child", timeout_s=20).text == "child!"
        fresh = Client(url, queue=queue)
        assert fresh.generate(prompt="fresh", timeout_s=20).text == "fresh!"
        fresh.close()
        sys.exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert client.generate(prompt="parent", timeout_s=20).text == "parent!"
    client.close()
    print("done")
    """
    ended = run_python(code, any_redis_url)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "done\n", "")


@pytest.mark.usefixtures("worker")
def test_a_process_that_closes_nothing_ends_cleanly(any_redis_url: str) -> None:
    code = """
    from busload import Client
    client = Client(url, queue=queue)
    print(client.generate(prompt="p", timeout_s=20).text)
    """
    ended = run_python(code, any_redis_url)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "p!\n", "")


def test_a_process_that_ends_with_a_thread_still_waiting_ends_cleanly(any_redis_url: str) -> None:
    code = """
    import threading
    from busload import Client
    client = Client(url, queue=queue)
    client.submit(id="a", prompt="p")
    threading.Thread(target=lambda: print(repr(client.result("a", 60))[:9]), daemon=True).start()
    """
    ended = run_python(code, any_redis_url)
    assert ended.returncode == 0
    assert "Fatal" not in ended.stderr


def test_a_forgotten_client_gives_its_connections_back(any_server: Server) -> None:
    def connections() -> int:
        with any_server.client() as redis:
            return len(redis.client_list())

    Client(any_server.url, queue=QUEUE).submit(prompt="warm up")
    for _ in range(20):
        Client(any_server.url, queue=QUEUE).submit(prompt="p")
    give_up = time.monotonic() + 20
    while connections() > 3:
        assert time.monotonic() < give_up
        time.sleep(0.01)


@pytest.mark.usefixtures("worker")
def test_it_works_inside_a_running_event_loop(client: Client) -> None:
    async def handler() -> str:
        return client.generate(prompt="p", timeout_s=20).text

    assert asyncio.run(handler()) == "p!"
