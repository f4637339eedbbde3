"""The page of dead letters: listing, redriving, dropping."""

from __future__ import annotations

import re

import httpx
import pytest
from tests.ops_page.conftest import QUEUE, Station
from tests.ops_page.letters import PROMPT, bury, letter

from busload import AsyncClient
from busload.operating.dead_letters import print_of
from busload_shared.queue import Queue
from busload_shared.replies import DeadLetter


@pytest.fixture
def ops(station: Station, http: httpx.AsyncClient) -> httpx.AsyncClient:
    """In by a header, as a program is."""
    http.headers.update(station.bearer())
    return http


def shown(page: httpx.Response) -> list[str]:
    """The ids on the page, in order."""
    assert page.status_code == 200, page.text
    return re.findall(r'scope="row"><span class="id">([^<]*)</span>', page.text)


async def test_letters_are_listed_newest_first_in_pages(ops: httpx.AsyncClient, queue: Queue) -> None:
    await bury(queue, *(letter(f"d{number}") for number in range(45)))
    assert shown(await ops.get("/ops/dead")) == [f"d{number}" for number in range(44, 24, -1)]
    assert shown(await ops.get("/ops/dead?page=3")) == [f"d{number}" for number in range(4, -1, -1)]
    assert shown(await ops.get("/ops/dead?page=4")) == []
    assert ("page=2" in (await ops.get("/ops/dead")).text, "page=3" in (await ops.get("/ops/dead")).text) == (
        True,
        False,
    )
    assert "Older" not in (await ops.get("/ops/dead?page=3")).text
    for odd in ("0", "-1", "x", "9" * 30, "\u0663"):
        assert (await ops.get("/ops/dead", params={"page": odd})).status_code == 200


async def test_letters_can_be_picked_by_reason(ops: httpx.AsyncClient, queue: Queue) -> None:
    await bury(queue, *(letter(f"d{n}", code="poison" if n % 3 else "engine_error") for n in range(90)))
    picked = await ops.get("/ops/dead", params={"code": "engine_error"})
    assert shown(picked) == [f"d{number}" for number in range(87, 27, -3)]
    assert "page=2" in picked.text
    assert shown(await ops.get("/ops/dead", params={"code": "engine_error", "page": 2}))[-1] == "d0"
    assert shown(await ops.get("/ops/dead", params={"code": "too_heavy"})) == []


async def test_no_request_is_shown(ops: httpx.AsyncClient, queue: Queue) -> None:
    await bury(queue, dead := letter("secretive"))
    ask = await ops.get("/ops/dead/ask", params={"what": "drop", "letter": print_of(dead)})
    for page in ((await ops.get("/ops")), (await ops.get("/ops/live")), (await ops.get("/ops/dead")), ask):
        assert page.status_code == 200
        assert PROMPT not in page.text


async def test_a_redriven_letter_is_answered(ops: httpx.AsyncClient, queue: Queue, station: Station) -> None:
    await bury(queue, dead := letter("again-1"))
    back = await ops.post("/ops/dead/redrive", data={"queue": QUEUE, "letter": print_of(dead)}, follow_redirects=True)
    assert "1 dead letter redriven." in back.text
    async with AsyncClient(station.redis.url) as client:
        assert (await client.result("again-1", timeout_s=20)).status == "succeeded"
    twice = await ops.post("/ops/dead/redrive", data={"queue": QUEUE, "letter": print_of(dead)}, follow_redirects=True)
    assert "0 dead letters redriven. 1 had gone before." in twice.text


async def test_all_of_a_reason_are_redriven_after_a_question(
    ops: httpx.AsyncClient, queue: Queue, station: Station
) -> None:
    codes = ("poison", "engine_error")
    await bury(queue, *(letter(f"all-{n}", code=codes[n % 2]) for n in range(6)))
    question = await ops.get("/ops/dead/ask", params={"what": "redrive-all", "code": "poison"})
    assert "Redrive all with poison?" in question.text
    assert len(await queue.dead_letters()) == 6, "it only asks"
    back = await ops.post("/ops/dead/redrive-all", data={"queue": QUEUE, "code": "poison"}, follow_redirects=True)
    assert "3 dead letters redriven." in back.text
    assert {dead.id for dead in await queue.dead_letters()} == {"all-1", "all-3", "all-5"}
    async with AsyncClient(station.redis.url) as client:
        for number in (0, 2, 4):
            assert (await client.result(f"all-{number}", timeout_s=20)).status == "succeeded"


async def test_one_is_dropped_after_a_question(ops: httpx.AsyncClient, queue: Queue) -> None:
    await bury(queue, letter("stays"), dead := letter("goes"), letter("stays-too"))
    which = {"what": "drop", "queue": QUEUE, "letter": print_of(dead)}
    assert '<strong class="id">goes</strong>' in (await ops.get("/ops/dead/ask", params=which)).text
    assert len(await queue.dead_letters()) == 3
    assert "1 dead letter dropped." in (await ops.post("/ops/dead/drop", data=which, follow_redirects=True)).text
    assert [one.id for one in await queue.dead_letters()] == ["stays-too", "stays"]
    assert (await ops.get("/ops/dead/ask", params=which)).status_code == 404


async def test_what_others_wrote_is_text_and_never_markup(ops: httpx.AsyncClient, queue: Queue) -> None:
    evil = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
    await bury(queue, hostile := letter(evil, code=evil, message=evil + "\u202e\x1b[31m\n"))
    page = (await ops.get("/ops/dead")).text + (
        await ops.get("/ops/dead", params={"did": evil, "n": evil, "code": evil})
    ).text
    page += (await ops.get("/ops/dead/ask", params={"what": "drop", "letter": print_of(hostile)})).text
    page += (await ops.get("/ops", params={"queue": evil})).text + (
        await ops.get("/ops/dead/ask", params={"what": evil})
    ).text
    assert "<script>" not in page
    assert "<img src=x" not in page
    assert "\u202e" not in page
    assert "\x1b" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


async def test_a_letter_without_an_id_and_what_is_none_do_no_harm(ops: httpx.AsyncClient, queue: Queue) -> None:
    nameless = DeadLetter.model_validate(letter("x").model_dump() | {"id": None, "payload": "no json"})
    await bury(queue, nameless)
    await queue.redis.lpush(queue.keys.dead, b"\xff no letter")
    assert shown(await ops.get("/ops/dead")) == ["cannot be read"]
    told = await ops.post("/ops/dead/redrive", data={"letter": print_of(nameless)}, follow_redirects=True)
    assert "1 dead letter redriven." in told.text
    await queue.purge_dead()


async def test_a_form_that_is_nonsense_is_refused(ops: httpx.AsyncClient) -> None:
    for body in (b"\xff\xfe", b"a=1&" * 100, b"letter=%00", b""):
        told = await ops.post("/ops/dead/drop", content=body, follow_redirects=True)
        assert told.status_code == 200
        assert "0 dead letters dropped. 1 had gone before." in told.text
