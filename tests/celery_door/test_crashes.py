"""Killed at any moment, nothing is lost; and of several who hear of a result one wakes its task."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.celery_door.conftest import QUEUE, Shop, get
from tests.waiting import wait_until

from busload import Client
from busload.celery_app import call_back, submit_with_callback

TASKS = 40


def lost_by_the_broker(shop: Shop, ids: list[str]) -> list[str]:
    """While no worker is up: the tasks that are neither in Celery's broker nor parked nor done."""
    held = b" ".join(
        [*shop.broker.lrange("celery", 0, -1), *shop.broker.hvals("unacked"), *shop.queue.keys("*parked*")]
    )
    return [name for name in ids if name.encode() not in held and not shop.tasks.app.AsyncResult(name).ready()]


async def test_a_celery_worker_killed_at_any_moment_loses_nothing(shop: Shop) -> None:
    settings = {"TEST_VISIBILITY_S": "2", "TEST_LANDING_LEASE_S": "2"}
    first = await shop.celery(**settings)

    def send(number: int, **named: str) -> Any:
        call = {"link": shop.tasks.effect.s("effects"), **named}
        return shop.tasks.generate.apply_async((f"q{number}",), {"max_tokens": 2}, **call)

    tasks = [send(i) for i in range(TASKS)]

    async def some_wait() -> bool:
        return bool(shop.queue.llen(QUEUE) >= 5)

    await wait_until(some_wait, what="some are parked")
    first.kill()
    for name in lost_by_the_broker(shop, [task.id for task in tasks]):
        send(0, task_id=name)
    await shop.engine()  # answers what it has while no Celery worker hears of it
    second = await shop.celery(**settings)

    async def some_done() -> bool:
        return len(shop.effects("published")) >= 5

    await wait_until(some_done, what="some were called back")
    shop.cut_busload()
    second.kill()
    for name in lost_by_the_broker(shop, [task.id for task in tasks]):
        send(0, task_id=name)
    await shop.celery(**settings)
    texts = [await get(task) for task in tasks]
    await shop.until_nothing_is_parked()
    published = shop.effects("published")
    assert len(set(texts)) == TASKS
    assert set(published) == set(texts), "every callback was called"
    assert len(published) <= TASKS + 2 * 2, "more than those two that ran at each kill were called twice"


async def test_two_workers_hear_of_each_result_and_each_callback_is_called_once(shop: Shop) -> None:
    await asyncio.gather(shop.celery("-n", "a@here"), shop.celery("-n", "b@here"), shop.engine())
    sent = {"max_tokens": 2}
    tasks = [
        shop.tasks.generate.apply_async((f"q{i}",), sent, link=shop.tasks.effect.s("effects")) for i in range(TASKS)
    ]
    texts = [await get(task) for task in tasks]

    async def all_called() -> bool:
        return len(shop.effects("effects")) >= TASKS

    await wait_until(all_called)
    await shop.until_nothing_is_parked()
    assert sorted(shop.effects("effects")) == sorted(texts)


async def test_a_task_is_called_with_the_result_of_a_request_that_did_not_come_through_celery(shop: Shop) -> None:
    await shop.celery()
    effect, app = shop.tasks.effect, shop.tasks.app

    def submit() -> str:
        with Client(shop.environment["BUSLOAD_REDIS_URL"]) as client:
            request: dict[str, Any] = {"prompt": "plain", "max_tokens": 2}
            submit_with_callback(client, {**request, "id": "early"}, on_result=effect.s("told"), app=app)
            client.submit({**request, "id": "later"})
            call_back("later", effect.s("told"), app=app)
        return "early"

    await asyncio.to_thread(submit)
    await asyncio.to_thread(call_back, "raw", effect.s("told"), app=app)
    await shop.engine()
    shop.queue.lpush(QUEUE, '{"id":"raw","prompt":"p","max_tokens":2}')

    async def told() -> bool:
        return len(shop.effects("told")) >= 3

    await wait_until(told)
    await shop.until_nothing_is_parked()
    assert sorted(shop.effects("told")) == ["early", "later", "raw"]
