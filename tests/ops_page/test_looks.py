"""How the operations page looks in a real Chromium, and that it can be read and used by everybody."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.ops_page.browser import Browser
from tests.ops_page.conftest import Station
from tests.ops_page.driving import seen
from tests.ops_page.letters import bury, letter

from busload_shared.past_batch import PastBatch
from busload_shared.queue import Queue
from busload_shared.replies import WorkerInfo

CONTRASTS = (Path(__file__).parent / "contrasts.js").read_text(encoding="utf-8")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_text_can_be_read_in_light_and_dark(scheme: str, page: Browser, station: Station, queue: Queue) -> None:
    await bury(queue, letter("shown"))
    page.prefers(scheme)
    assert (
        page.style("body", "background-color")
        == {
            "light": "rgba(244, 246, 248, 1)",
            "dark": "rgba(15, 20, 26, 1)",
        }[scheme]
    )
    for path in ("/ops", "/ops?queue=busload:other", "/ops/dead", "/ops/dead/ask?what=redrive-all", "/ops/login"):
        page.get(station.url + path)
        weak = page.run(CONTRASTS, 4.5)
        assert weak == [], f"{path}: too little contrast"


@pytest.mark.parametrize("width", [390, 768, 1280])
async def test_no_page_is_wider_than_the_screen(width: int, page: Browser, station: Station, queue: Queue) -> None:
    await bury(queue, letter("i" * 128, message="m" * 500))
    page.resize(width, 844, is_phone=width < 500)
    for path in ("/ops", "/ops?queue=busload:other", "/ops/dead", "/ops/dead/ask?what=redrive-all"):
        page.get(station.url + path)
        assert page.run("return document.documentElement.scrollWidth") <= width, path


async def test_buttons_on_a_phone_are_large_enough_for_a_finger(page: Browser, station: Station, queue: Queue) -> None:
    await bury(queue, letter("touched"))
    page.resize(390, 844, is_phone=True)
    page.get(f"{station.url}/ops/dead")
    heights = page.run("return [...document.querySelectorAll('button')].map(b => b.getBoundingClientRect().height)")
    assert len(heights) >= 5
    assert min(heights) >= 38


async def test_hostile_names_are_shown_and_do_nothing(page: Browser, station: Station, queue: Queue) -> None:
    evil = "<img src=x onerror=window.hacked=1><script>window.hacked=2</script>"
    past = PastBatch(batch=evil, size=3, trigger=evil, claimed_ms=4e12, ended_ms=4e12, waited_ms=1, run_ms=1, held_ms=0)
    other = Queue(queue.redis, "busload:hostile")
    for name in (evil, "'\"&lt;"):
        await other.heartbeat(WorkerInfo(name=name, state=evil, model=evil, engine=evil), ttl_s=60)
        await other.tell_past(name, [past], ttl_s=60)
    await bury(other, letter(evil, code=evil, message=evil))
    try:
        page.get(f"{station.url}/ops?queue=busload:hostile")
        await seen(page, evil[:80], "#t-workers + table")
        await seen(page, "Live", "#pulse")
        page.get(f"{station.url}/ops/dead?queue=busload:hostile")
        assert evil in page.text("tbody th")
        assert page.run("return window.hacked") is None
        assert page.run("return document.images.length") == 1, "the icon alone"
    finally:
        for name in (evil, "'\"&lt;"):
            await other.farewell(name)
        await other.purge_dead()


async def test_an_empty_queue_says_what_to_do(page: Browser, station: Station) -> None:
    page.get(f"{station.url}/ops?queue=busload:other")
    assert "No worker is up" in page.text("#concerns")
    assert "BUSLOAD_QUEUE=busload:other busload-worker" in page.text("#concerns")
    assert "busload submit --queue busload:other" in page.text()


async def test_every_control_is_reached_and_named_by_the_keyboard(
    page: Browser, station: Station, queue: Queue
) -> None:
    await bury(queue, letter("reached"))
    for path in ("/ops", "/ops/dead"):
        page.get(station.url + path)
        names = page.run(
            "return [...document.querySelectorAll('a, button, select, input:not([type=hidden]), summary')].map(one => ["
            "one.tabIndex, one.ariaLabel || one.textContent.trim() || (one.labels?.length ? 'label' : '')])"
        )
        assert names
        assert all(index == 0 and name for index, name in names), names
    assert page.run("return document.querySelectorAll('h1').length") == 1
    assert page.run("return document.documentElement.lang") == "en"
