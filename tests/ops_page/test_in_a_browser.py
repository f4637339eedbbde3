"""The operations page in a real Chromium: what moves, and what clicks do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from tests.gateway.gateway_process import GatewayProcess
from tests.ops_page.browser import Browser
from tests.ops_page.conftest import QUEUE, Station
from tests.ops_page.driving import seen, sign_in
from tests.ops_page.keys import OPS_KEY
from tests.ops_page.letters import bury, letter
from tests.redis_servers import Server
from tests.waiting import wait_until

from busload import AsyncClient
from busload_shared.connection import open_redis
from busload_shared.queue import Queue

Start = Callable[..., GatewayProcess]


async def test_buses_are_seen_leaving_and_coming_back_without_a_reload(page: Browser, station: Station) -> None:
    page.run("window.mark = 'the same page'")
    async with AsyncClient(station.redis.url) as client:
        await asyncio.gather(*(client.submit(prompt="p", max_tokens=1500) for _ in range(4)))
        await seen(page, "4 of 4", ".buses .is-out")
        rows = page.run("return [...document.querySelectorAll('.buses .is-out')].map(row => row.innerText)")
        name = next(row.split()[0] for row in rows if "4 of 4" in row)
        await seen(page, f"bus {name}", "#t-workers + table")
        await seen(page, name, ".buses .is-back")
    row = page.run(
        "return [...document.querySelectorAll('.buses tr')].find(r => r.textContent.includes(arguments[0])).innerText",
        name,
    )
    assert "full" in row
    assert "4 of 4" in row
    assert "3." in row, "it ran for three seconds"
    assert page.run("return window.mark") == "the same page"
    assert page.text("#pulse") == "Live"
    for title in ("Fill", "Wait", "Run", "Held"):
        assert title in page.text(".histogram")


async def test_the_held_time_of_a_bus_that_is_released_whole_is_shown(page: Browser, station: Station) -> None:
    async with AsyncClient(station.redis.url) as client:

        async def held() -> bool:
            await client.submit(id=f"h-{time.time()}", prompt="p", max_tokens=4)
            await client.generate(id=f"i-{time.time()}", prompt="p", max_tokens=200)
            rows = page.run("return [...document.querySelectorAll('.buses .is-back')].map(r => r.innerText)")
            return any("whole" in row and "2 of 4" in row and "392 ms" in row for row in rows)

        await wait_until(held, timeout_s=30, what="a bus of worker `whole` held its short row for 196 steps of 2 ms")


async def test_a_dead_letter_redriven_by_a_click_is_answered(page: Browser, station: Station, queue: Queue) -> None:
    await bury(queue, letter("clicked"))
    await seen(page, "see them", ".tile.warn a")
    page.click(".tile.warn a")
    await seen(page, "the engine died 2 times while it ran alone", "tbody")
    page.click("tbody form[action='/ops/dead/redrive'] button")
    await seen(page, "1 dead letter redriven.", "[role=status]")
    assert "There are none" in page.text()
    async with AsyncClient(station.redis.url) as client:
        assert (await client.result("clicked", timeout_s=20)).status == "succeeded"


async def test_all_are_redriven_and_one_dropped_after_a_question(page: Browser, station: Station, queue: Queue) -> None:
    await bury(queue, letter("first"), letter("second"), letter("third"))
    page.get(f"{station.url}/ops/dead")
    page.click("tbody tr:nth-child(2) form[action='/ops/dead/ask'] button")
    await seen(page, "second", ".narrow")
    page.click("button.danger")
    await seen(page, "1 dead letter dropped.", "[role=status]")
    page.click(".bar-of-tools form:nth-child(2) button")
    await seen(page, "Redrive all?", "h1")
    page.click(".narrow a.quiet")
    await seen(page, "Dead letters", "h1")
    assert [one.id for one in await queue.dead_letters()] == ["third", "first"], "cancelled"
    page.click(".bar-of-tools form:nth-child(2) button")
    await seen(page, "Redrive all?", "h1")
    page.click("button.main")
    await seen(page, "2 dead letters redriven.", "[role=status]")
    assert await queue.dead_letters() == []


async def test_a_wrong_key_is_told_so_and_the_right_one_opens(browser: Browser, station: Station) -> None:
    sign_in(browser, station.url, "wrong")
    await seen(browser, "This is no operator's key", "[role=alert]")
    assert "password" in browser.run("return document.querySelector('#key').type")
    browser.type("#key", OPS_KEY)
    browser.click("button.main")
    await seen(browser, "Workers")
    assert browser.run("return document.cookie") == "", "no script sees the session"
    browser.click(".leave button")
    await seen(browser, "Operator key")
    browser.get(f"{station.url}/ops")
    assert browser.url.endswith("/ops/login")


async def test_without_scripts_it_reads_and_works_all_the_same(page: Browser, station: Station, queue: Queue) -> None:
    await bury(queue, letter("scriptless"))
    page.scripts(on=False)
    page.get(f"{station.url}/ops")
    assert "row" in page.text("#t-workers + table")
    await seen(page, "see them", ".tile.warn a")
    page.get(f"{station.url}/ops/dead")
    page.click("tbody form[action='/ops/dead/redrive'] button")
    await seen(page, "1 dead letter redriven.", "[role=status]")
    page.get(f"{station.url}/ops")
    await seen(page, "0", ".tile:nth-child(8) .value")


async def test_focus_and_opened_details_outlive_an_update(page: Browser, station: Station) -> None:
    page.click("details summary")
    page.run("document.querySelector('details summary').focus(); window.row = document.querySelector('details')")
    async with AsyncClient(station.redis.url) as client:
        done = page.text("td[data-label='Done']")
        await client.generate(prompt="p", max_tokens=4)

        async def updated() -> bool:
            return page.text("td[data-label='Done']") != done

        await wait_until(updated, what="the page is updated")
    assert page.run("return document.activeElement.tagName") == "SUMMARY"
    assert page.run("return window.row.open && window.row.isConnected")
    assert "Batch time, learned" in page.text("details")


async def test_a_redis_that_goes_away_is_told_and_it_comes_back_by_itself(
    browser: Browser, any_server: Server, start_gateway: Start
) -> None:
    gateway = start_gateway(any_server.url, ops_key=OPS_KEY)
    sign_in(browser, gateway.url)
    await seen(browser, "Live", "#pulse")
    browser.run("window.mark = 1")
    any_server.pause()
    await seen(browser, "Redis does not answer", "#concerns")
    assert "old" in browser.text("#concerns"), "it says how old the figures are"
    any_server.resume()

    async def calm() -> bool:
        return "Redis" not in browser.text("#concerns")

    await wait_until(calm, what="Redis is seen again")
    assert browser.run("return window.mark") == 1
    assert browser.complaints() == []


async def test_a_gateway_that_restarts_is_told_and_the_page_goes_on(
    browser: Browser, station: Station, start_gateway: Start
) -> None:
    settings = {"ops_key": OPS_KEY, "ops_session_secret": "s" * 32}
    gateway = start_gateway(station.redis.url, **settings)
    sign_in(browser, gateway.url)
    await seen(browser, "Live", "#pulse")
    browser.run("window.mark = 1")
    gateway.process.kill()
    await seen(browser, "The gateway does not answer", "#pulse")
    start_gateway(station.redis.url, port=int(gateway.url.rpartition(":")[2]), **settings)
    await seen(browser, "Live", "#pulse")
    assert browser.run("return window.mark") == 1


async def test_a_session_that_is_over_leads_to_the_form(browser: Browser, station: Station) -> None:
    sign_in(browser, station.url)
    await seen(browser, "Live", "#pulse")
    browser.devtools("Network.clearBrowserCookies")
    await seen(browser, "Operator key")
    assert browser.url.endswith("/ops/login")


async def test_a_hidden_page_asks_nothing(page: Browser, station: Station) -> None:
    asked = "return performance.getEntriesByType('resource').filter(one => one.name.includes('/ops/live')).length"
    await seen(page, "Live", "#pulse")
    page.run(
        "Object.defineProperty(document, 'hidden', {configurable: true, get: () => window.away});"
        "window.away = true; document.dispatchEvent(new Event('visibilitychange'))"
    )
    before, until = page.run(asked), time.monotonic() + 3
    while time.monotonic() < until:
        assert page.run(asked) <= before + 1, "one may have been under way"
        await asyncio.sleep(0.2)
    before = page.run(asked)
    page.run("window.away = false; document.dispatchEvent(new Event('visibilitychange'))")

    async def asks() -> bool:
        return bool(page.run(asked) > before)

    await wait_until(asks, what="it asks again")


async def test_the_queue_of_the_tab_is_the_one_that_is_watched(page: Browser, station: Station) -> None:
    page.click("#q-2 a")
    assert page.text("h1") == "busload:other"
    redis = open_redis(station.redis.url)
    try:
        await redis.lpush("busload:other", b'{"id":"w","prompt":"p"}')
        await seen(page, "1 request waits", "#concerns")
        await redis.delete("busload:other")
        await seen(page, "Requests will wait", "#concerns")
    finally:
        await redis.aclose()
    page.click("#q-1 a")
    assert page.text("h1") == QUEUE
