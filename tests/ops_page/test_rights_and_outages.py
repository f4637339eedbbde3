"""What the page says when Redis lets it see little, or is away; and a queue of partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import httpx
import pytest
from tests.gateway.gateway_process import GatewayProcess
from tests.ops_page.keys import OPS_KEY
from tests.ops_page.letters import bury, letter
from tests.redis_servers import Server, Servers
from tests.trust.guarded import Guarded, guarded_by
from tests.waiting import wait_until
from tests.worker_process import WorkerProcess

from busload import AsyncClient
from busload.operating.dead_letters import print_of
from busload_shared.connection import open_redis
from busload_shared.queue import Queue

Start = Callable[..., GatewayProcess]
KEY = {"Authorization": f"Bearer {OPS_KEY}"}
NARROW = "BUSLOAD_GATEWAY_OPS_REDIS_URL"


@pytest.fixture(params=["7.0", "6.2"])
def guarded(request: pytest.FixtureRequest, redis_servers: Servers) -> Iterator[Guarded]:
    """A Redis with the users of `ops/redis`, one for each of its two files."""
    with guarded_by(redis_servers, request.param) as server:
        yield server


async def test_a_producers_rights_show_what_they_can_and_say_what_to_change(
    guarded: Guarded, start_gateway: Start
) -> None:
    worker = WorkerProcess(guarded.url_for("worker"), max_wait_ms=5)
    gateway = start_gateway(guarded.url_for("producer"), ops_key=OPS_KEY)
    redis = open_redis(guarded.url_for("operator"))
    queue = Queue(redis, "busload:default")
    try:
        await worker.ready()
        async with httpx.AsyncClient(base_url=gateway.url, headers=KEY, timeout=30) as http:
            page = await http.get("/ops")
            assert page.status_code == 200
            assert NARROW in page.text
            assert '<dt>Waiting</dt><dd><span class="value">0</span>' in page.text
            dead = await http.get("/ops/dead")
            assert (dead.status_code, NARROW in dead.text) == (503, True)
            await bury(queue, dead_one := letter("there"))
            for path in ("redrive", "redrive-all", "drop"):
                told = await http.post(f"/ops/dead/{path}", data={"letter": print_of(dead_one)})
                assert (told.status_code, NARROW in told.text) == (503, True)
            assert len(await queue.dead_letters()) == 1
    finally:
        await redis.aclose()
        worker.close()


@pytest.mark.parametrize("role", ["worker", "operator"])
async def test_a_user_of_its_own_for_the_page_sees_and_does_all(
    role: str, guarded: Guarded, start_gateway: Start
) -> None:
    worker = WorkerProcess(guarded.url_for("worker"), max_wait_ms=5)
    settings = {"ops_key": OPS_KEY, "ops_redis_url": guarded.url_for(role)}
    gateway = start_gateway(guarded.url_for("producer"), **settings)
    redis = open_redis(guarded.url_for("operator"))
    queue = Queue(redis, "busload:default")
    try:
        await worker.ready()
        await bury(queue, dead := letter("goes"), gone := letter("dropped"), letter("goes-too"))
        async with httpx.AsyncClient(base_url=gateway.url, headers=KEY, timeout=30, follow_redirects=True) as http:
            page = await http.get("/ops")
            assert page.status_code == 200
            assert NARROW not in page.text
            for path, data in (
                ("redrive", {"letter": print_of(dead)}),
                ("drop", {"letter": print_of(gone)}),
                ("redrive-all", {"code": "poison"}),
            ):
                assert "1 dead letter " in (await http.post(f"/ops/dead/{path}", data=data)).text
        assert await queue.dead_letters() == []
        async with AsyncClient(guarded.url_for("producer"), patience_s=20) as client:
            for name in ("goes", "goes-too"):
                assert (await client.result(name, timeout_s=20)).status == "succeeded"
        assert not [one for one in guarded.refusals() if one.startswith(role)]
    finally:
        await redis.aclose()
        worker.close()


async def test_a_redis_that_is_away_is_told_in_the_page_and_found_again(
    any_server: Server, start_gateway: Start
) -> None:
    gateway = start_gateway(any_server.url, ops_key=OPS_KEY)
    async with httpx.AsyncClient(base_url=gateway.url, headers=KEY, timeout=30) as http:
        assert "Redis" not in (await http.get("/ops/live")).text
        any_server.pause()
        try:

            async def told() -> bool:
                page = await http.get("/ops/live")
                assert page.status_code == 200
                return "Redis does not answer within 2 s" in page.text and "What stands here is" in page.text

            await wait_until(told, what="the page says that Redis is away")
            dead = await http.get("/ops/dead")
            assert dead.status_code == 503
            assert "Redis does not answer" in dead.text
        finally:
            any_server.resume()

        async def back() -> bool:
            return "Redis does not answer" not in (await http.get("/ops/live")).text

        await wait_until(back, what="Redis is found again")
        assert (await http.get("/ops/dead")).status_code == 200
    assert "Traceback" not in gateway.log()


async def test_without_any_redis_the_page_comes_up_and_says_so(start_gateway: Start) -> None:
    gateway = start_gateway("redis://127.0.0.1:1/0", ops_key=OPS_KEY)
    async with httpx.AsyncClient(base_url=gateway.url, headers=KEY, timeout=30) as http:
        page = await http.get("/ops")
        assert page.status_code == 200
        assert "Redis does not answer" in page.text


def test_a_redis_url_that_is_none_is_told_at_the_start() -> None:
    gateway = GatewayProcess("redis://127.0.0.1:1/0", ops_key=OPS_KEY, ops_redis_url="http://user:pass-word@x")
    try:
        assert gateway.ended() == 2
        assert "redis_url is not a Redis URL" in gateway.log()
        assert "pass-word" not in gateway.log()
    finally:
        gateway.close()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"ops_key": "short"}, "BUSLOAD_GATEWAY_OPS_KEY: Value error, at least 16 characters"),
        ({"ops_session_secret": "short"}, "BUSLOAD_GATEWAY_OPS_SESSION_SECRET: Value error, at least 16 characters"),
        ({"ops_queues": "a,b{c}"}, "BUSLOAD_GATEWAY_OPS_QUEUES"),
    ],
)
def test_a_setting_that_cannot_be_is_told_at_the_start(settings: dict[str, str], said: str) -> None:
    gateway = GatewayProcess("redis://127.0.0.1:1/0", **settings)
    try:
        assert gateway.ended() == 2
        assert said in gateway.log()
        assert "short" not in gateway.log()
    finally:
        gateway.close()


async def test_a_queue_of_partitions_is_shown_as_one(any_server: Server, start_gateway: Start) -> None:
    worker = WorkerProcess(any_server.url, worker_name="of-both", partitions=2, max_wait_ms=5)
    gateway = start_gateway(any_server.url, ops_key=OPS_KEY, partitions=2)
    try:
        await worker.ready()
        async with (
            AsyncClient(any_server.url, partitions=2) as client,
            httpx.AsyncClient(base_url=gateway.url, headers=KEY, timeout=30) as http,
        ):
            for number in range(8):
                await client.generate(id=f"p{number}", prompt="p", max_tokens=4)

            async def all_told() -> bool:
                return "8 in " in (await http.get("/ops/live")).text

            await wait_until(all_told, what="both partitions' buses are counted")
            page = (await http.get("/ops")).text
            assert page.count('scope="row">of-both<') == 1
            assert (await http.get("/ops/dead")).status_code == 200
    finally:
        worker.close()
