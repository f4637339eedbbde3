"""Who may see the operations page and press its buttons, over plain HTTP."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from tests.gateway.gateway_process import GatewayProcess
from tests.ops_page.conftest import QUEUE, Station
from tests.ops_page.keys import OPS_KEY, keys_toml
from tests.ops_page.letters import PROMPT, bury, letter
from tests.waiting import wait_until

from busload.gateway.application import describe
from busload.gateway.settings import GatewaySettings
from busload.operating.dead_letters import print_of
from busload.ops_page.rendering import HEADERS
from busload.ops_page.routes import routes
from busload.ops_page.sessions import COOKIE
from busload.ops_page.tries import AT_ONCE
from busload_shared.queue import Queue

Start = Callable[..., GatewayProcess]
ROUTES = [
    (method, route.path.replace("{name}", "ops.css"))  # type: ignore[attr-defined]
    for route in routes()
    for method in sorted(route.methods - {"HEAD"})  # type: ignore[attr-defined]
]
OPEN = {("GET", "/ops/login"), ("POST", "/ops/login"), ("GET", "/ops/static/ops.css")}


async def sign_in(http: httpx.AsyncClient, key: str = OPS_KEY) -> None:
    told = await http.post("/ops/login", data={"key": key})
    assert (told.status_code, told.headers["location"]) == (303, "/ops"), told.text


async def form_token(http: httpx.AsyncClient) -> str:
    [found] = set(re.findall(r'name="form_token" value="(\w+)"', (await http.get("/ops")).text))
    return found


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_without_an_operator_there_is_no_page(method: str, path: str, town_without: GatewayProcess) -> None:
    told = httpx.request(method, town_without.url + path)
    assert told.status_code == 404
    assert "BUSLOAD_GATEWAY_OPS_KEY" in told.json()["error"]["message"]


@pytest.fixture(scope="module")
def town_without(station: Station) -> GatewayProcess:
    """A gateway with a key, but no operator."""
    gateway = GatewayProcess(station.redis.url)
    try:
        yield gateway.listening()  # type: ignore[misc]
    finally:
        gateway.close()


@pytest.mark.parametrize(("method", "path"), [route for route in ROUTES if route not in OPEN])
async def test_every_part_asks_for_an_operators_key(
    method: str, path: str, http: httpx.AsyncClient, station: Station
) -> None:
    told = await http.request(method, path)
    if method == "GET" and not path.endswith("/live"):
        assert (told.status_code, told.headers["location"]) == (303, "/ops/login")
    else:
        assert told.status_code == 401
    for key in (station.shop, "wrong"):
        told = await http.request(method, path, headers=station.bearer(key))
        assert (told.status_code, told.json()["error"]["code"]) == (401, "invalid_api_key")
    told = await http.request(method, path, headers={"Cookie": f"{COOKIE}=operator.99999999999.aa.bb"})
    assert told.status_code in (303, 401)


@pytest.mark.parametrize("who", ["settings", "ann"])
async def test_an_operators_key_opens_it_by_form_and_by_header(
    who: str, http: httpx.AsyncClient, station: Station
) -> None:
    key = OPS_KEY if who == "settings" else station.ann
    assert "Workers" in (await http.get("/ops", headers=station.bearer(key))).text
    await sign_in(http, key)
    page = await http.get("/ops")
    assert page.status_code == 200
    assert f">{'operator' if who == 'settings' else 'ann'}</span>" in page.text
    await http.post("/ops/logout", data={"form_token": await form_token(http)})
    assert (await http.get("/ops")).status_code == 303


async def test_an_operator_of_the_keys_file_may_call_the_models_too(http: httpx.AsyncClient, station: Station) -> None:
    assert (await http.get("/v1/models", headers=station.bearer(station.ann))).status_code == 200
    assert (await http.get("/v1/models", headers=station.bearer(OPS_KEY))).status_code == 401


async def test_a_wrong_key_is_refused_in_the_form(http: httpx.AsyncClient, station: Station) -> None:
    for key in ("wrong", station.shop, ""):
        told = await http.post("/ops/login", data={"key": key})
        assert told.status_code == 401
        assert "no operator&#39;s key" in told.text
        assert "set-cookie" not in told.headers


async def test_after_many_wrong_keys_an_address_must_wait(station: Station, start_gateway: Start) -> None:
    gateway = start_gateway(station.redis.url, ops_key=OPS_KEY)
    async with httpx.AsyncClient(base_url=gateway.url, timeout=30) as http:
        for _ in range(AT_ONCE):
            assert (await http.post("/ops/login", data={"key": "guess"})).status_code == 401
        for told in (
            await http.post("/ops/login", data={"key": OPS_KEY}),
            await http.get("/ops", headers=station.bearer()),
        ):
            assert told.status_code == 429, "even the right key waits, or trying would tell"
            assert 1 <= int(told.headers["retry-after"]) <= 10


async def test_the_cookie_is_kept_from_scripts_and_other_sites(http: httpx.AsyncClient) -> None:
    plain = (await http.post("/ops/login", data={"key": OPS_KEY})).headers["set-cookie"]
    assert {"HttpOnly", "Path=/ops", "SameSite=strict", "Max-Age=28800"} <= set(plain.split("; "))
    assert "Secure" not in plain
    behind = await http.post("/ops/login", data={"key": OPS_KEY}, headers={"X-Forwarded-Proto": "https"})
    assert "Secure" in behind.headers["set-cookie"].split("; ")


async def test_every_answer_has_the_headers_that_keep_it_safe(http: httpx.AsyncClient) -> None:
    await sign_in(http)
    for path in (
        "/ops",
        "/ops/live",
        "/ops/dead",
        "/ops/login",
        "/ops/dead/ask",
        "/ops?queue=none",
        "/ops/static/ops.js",
    ):
        told = await http.get(path)
        for name, value in HEADERS.items():
            kept = value if "static" not in path or name != "Cache-Control" else "public, max-age=86400"
            assert told.headers[name] == kept, (path, name)
    assert "unsafe" not in HEADERS["Content-Security-Policy"]
    page = (await http.get("/ops")).text + (await http.get("/ops/dead")).text
    assert not re.search(r"<style|\bstyle=|\bon\w+=|<script>|https?://", page), "the policy forbids it"


async def test_a_form_of_another_page_changes_nothing(http: httpx.AsyncClient, station: Station, queue: Queue) -> None:
    await bury(queue, dead := letter("forged"))
    await sign_in(http)
    async with httpx.AsyncClient(base_url=station.url) as other:
        await sign_in(other)
        others_token = await form_token(other)
    fields = {"queue": QUEUE, "letter": print_of(dead)}
    for token in ({}, {"form_token": ""}, {"form_token": "a" * 64}, {"form_token": others_token}):
        for path in ("/ops/dead/redrive", "/ops/dead/redrive-all", "/ops/dead/drop", "/ops/logout"):
            assert (await http.post(path, data=fields | token)).status_code == 403
    assert len(await queue.dead_letters()) == 1
    assert (await http.get("/ops")).status_code == 200, "still signed in"
    assert (await http.post("/ops/dead/drop", data=fields | {"form_token": await form_token(http)})).status_code == 303
    assert await queue.dead_letters() == []


async def test_a_button_changes_nothing_when_it_is_only_visited(http: httpx.AsyncClient, queue: Queue) -> None:
    await bury(queue, letter("visited"))
    await sign_in(http)
    for path in ("/ops/dead/redrive", "/ops/dead/redrive-all", "/ops/dead/drop", "/ops/logout"):
        assert (await http.get(path)).status_code == 405
    assert len(await queue.dead_letters()) == 1


async def test_a_key_that_is_taken_away_ends_its_sessions(
    station: Station, start_gateway: Start, tmp_path: Path
) -> None:
    file = tmp_path / "keys.toml"
    secret = keys_toml(file, bob=True, eve=False)["bob"]
    gateway = start_gateway(station.redis.url, keys_file=file)
    async with httpx.AsyncClient(base_url=gateway.url, timeout=30) as http:
        await sign_in(http, secret)
        assert (await http.get("/ops")).status_code == 200
        keys_toml(file, bob=True, eve=False)  # the same name, another key

        async def ended() -> bool:
            return (await http.get("/ops")).status_code == 303

        await wait_until(ended, what="the old key opens the page no more")


async def test_a_session_outlives_the_gateway_only_with_a_secret_of_the_settings(
    station: Station, start_gateway: Start
) -> None:
    for secret, status in (("s" * 32, 200), ("t" * 32, 303), ("", 303)):
        other = start_gateway(station.redis.url, ops_key=OPS_KEY, ops_session_secret=secret)
        async with httpx.AsyncClient() as http:
            await http.post(f"{other.url}/ops/login", data={"key": OPS_KEY})
            cookie = f"{COOKIE}={http.cookies[COOKIE]}"
        async with httpx.AsyncClient(base_url=station.url, headers={"Cookie": cookie}) as http:
            assert (await http.get("/ops")).status_code == status


def test_the_page_is_not_in_the_openapi_document() -> None:
    assert not [path for path in describe(GatewaySettings()).openapi()["paths"] if path.startswith("/ops")]


async def test_a_queue_that_is_not_shown_is_told_so(http: httpx.AsyncClient, station: Station) -> None:
    told = await http.get("/ops", params={"queue": "<b>other</b>"}, headers=station.bearer())
    assert told.status_code == 404
    assert "BUSLOAD_GATEWAY_OPS_QUEUES" in told.text
    assert "busload:other" in (await http.get("/ops", params={"queue": "busload:other"}, headers=station.bearer())).text


async def test_each_deed_is_in_the_log_with_who_did_it(http: httpx.AsyncClient, station: Station, queue: Queue) -> None:
    await bury(queue, dead := letter("logged"))
    await http.post("/ops/dead/drop", data={"letter": print_of(dead)}, headers=station.bearer(station.ann))
    line = station.gateway.lines("dead letters dropped")[-1]
    told = {name: line[name] for name in ("key", "queue", "count", "gone", "id")}
    assert told == {"key": "ann", "queue": QUEUE, "count": 1, "gone": 0, "id": "logged"}
    assert station.gateway.lines("call")[-1]["key"] == "ann"
    for secret in (OPS_KEY, station.ann, PROMPT):
        assert secret not in station.gateway.log()


async def test_looks_of_an_open_page_fill_no_log(http: httpx.AsyncClient, station: Station) -> None:
    before = len(station.gateway.lines("call"))
    assert (await http.get("/ops/live", headers=station.bearer())).status_code == 200
    assert (await http.get("/ops/static/icon.svg")).status_code == 200
    assert len(station.gateway.lines("call")) == before
    assert (await http.get("/ops/live")).status_code == 401
    assert station.gateway.lines("call")[-1]["path"] == "/ops/live"


async def test_a_gateway_that_stops_waits_for_no_open_page(station: Station, start_gateway: Start) -> None:
    gateway = start_gateway(station.redis.url, ops_key=OPS_KEY, drain_s=60)
    async with httpx.AsyncClient(base_url=gateway.url, headers=station.bearer()) as http:
        assert (await http.get("/ops")).status_code == 200
        assert (await http.get("/ops/live")).status_code == 200
        gateway.signal(signal.SIGTERM)

        async def ended() -> bool:
            return gateway.process.poll() is not None

        await wait_until(ended, timeout_s=15, what="the gateway has ended")
