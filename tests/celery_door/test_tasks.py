"""A task that waits in Busload is a task like any other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from celery import chain, chord, group
from celery.exceptions import SoftTimeLimitExceeded, TaskRevokedError
from tests.celery_door.conftest import QUEUE, Shop, get
from tests.waiting import wait_until

from busload import RequestInvalid
from busload.celery_app import RequestFailed

REFUSED = {"prompt": "x", "metadata": {"fake": "refuse"}, "max_tokens": 2}


async def test_chains_chords_groups_links_and_errors_work_as_with_any_task(shop: Shop) -> None:
    await asyncio.gather(shop.celery(), shop.engine())
    generate, exclaim, joined = shop.tasks.generate, shop.tasks.exclaim, shop.tasks.joined
    first = generate.delay("a question", max_tokens=4)
    chained = chain(generate.s("one", max_tokens=2), generate.s(max_tokens=2), exclaim.s())()
    counted = chord([generate.s(f"p{i}", max_tokens=2) for i in range(5)], joined.s())()
    chat = [{"role": "user", "content": "hi"}]
    grouped = group(generate.s(messages=chat, max_tokens=2) for _ in range(3))()
    links = {"link": shop.tasks.effect.s("linked"), "link_error": shop.tasks.failed.s("errors")}
    linked = generate.apply_async(("x",), {"max_tokens": 2}, **links)
    refused = generate.apply_async((), REFUSED, **links)
    invalid = generate.apply_async(("x",), {"max_tokens": 0}, **links)
    spoiled = chord([generate.s("p", max_tokens=2), generate.s(**REFUSED)], joined.s())()

    assert (await get(first)).startswith(f"echo:celery:{first.id}:0:")
    assert first.state == "SUCCESS"
    said = await get(chained)
    assert (said[:5], said[-1]) == ("echo:", "!")
    assert len((await get(counted)).split(" + ")) == 5
    assert len(set(await get(grouped))) == 3
    text = await get(linked)
    with pytest.raises(RequestFailed, match="refused as its metadata asks") as failure:
        await get(refused)
    assert failure.value.code == "invalid_request"
    with pytest.raises(RequestInvalid, match="max_tokens"):
        await get(invalid)
    with pytest.raises(Exception, match="refused as its metadata asks"):
        await get(spoiled)

    async def told() -> bool:
        return shop.effects("linked") == [text] and len(shop.effects("errors")) == 2

    await wait_until(told, what="link and link_error were called")
    assert sorted(shop.effects("errors")) == ["RequestFailed", "RequestInvalid"]


async def test_while_a_request_waits_its_task_tells_so_and_can_be_revoked_or_run_out_of_time(shop: Shop) -> None:
    await shop.celery()
    generate = shop.tasks.generate
    kept, revoked = generate.delay("kept", max_tokens=2), generate.delay("revoked", max_tokens=2)
    late = generate.apply_async(("late",), {"max_tokens": 2}, soft_time_limit=1)
    await shop.until_waiting(3)
    assert kept.state == "WAITING"
    assert kept.info == {"request_id": f"celery:{kept.id}:0", "queue": QUEUE}
    revoked.revoke()
    with pytest.raises(TaskRevokedError):
        await get(revoked)
    assert revoked.state == "REVOKED"
    assert b'"status":"cancelled"' in shop.queue.get(f"{{{QUEUE}}}:result:celery:{revoked.id}:0")
    await shop.until_overdue()
    await shop.engine()
    assert (await get(kept)).startswith("echo:")
    with pytest.raises(SoftTimeLimitExceeded):
        await get(late)
    await shop.until_nothing_is_parked()


async def test_a_thousand_wait_on_two_processes_and_other_tasks_run_meanwhile(shop: Shop) -> None:
    await shop.celery(TEST_LOOK_S="10")
    results = [shop.tasks.generate.delay(f"question {i}", max_tokens=2) for i in range(1000)]
    await shop.until_waiting(1000)
    assert await get(shop.tasks.exclaim.delay("meanwhile")) == "meanwhile!"
    await shop.engine(max_batch_size=64)
    for result in results:
        assert (await get(result, 60)).startswith(f"echo:celery:{result.id}:0:")


async def test_a_retry_is_a_request_of_its_own_and_a_full_queue_is_tried_again(shop: Shop) -> None:
    await shop.celery(TEST_MAX_QUEUE="2", TEST_AUTORETRY="1", TEST_RETURNS="result")
    generate = shop.tasks.generate
    results = [generate.delay(f"q{i}", max_tokens=2) for i in range(4)]

    async def some_are_refused() -> bool:
        return [result.state for result in results].count("RETRY") == 2

    await wait_until(some_are_refused, what="two wait and two are retried")
    await shop.engine()
    for result in results:
        answer: dict[str, Any] = await get(result)
        assert (answer["status"], answer["id"]) == ("succeeded", f"celery:{result.id}:0")
    failing = generate.apply_async((), REFUSED, retry=False)
    with pytest.raises(RequestFailed):
        await get(failing)
    tried = [f"{{{QUEUE}}}:result:celery:{failing.id}:{retries}" for retries in range(4)]
    assert [bool(shop.queue.exists(key)) for key in tried] == [True, True, True, False]
    await shop.until_nothing_is_parked()
