"""Killed at any moment, nothing is lost; and of several who hear of a result one wakes its task."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from tests.celery_door.broker_watch import BrokerWatch
from tests.celery_door.conftest import QUEUE, Shop, get
from tests.waiting import wait_until

from busload import Client
from busload.celery_app import call_back, submit_with_callback

TASKS = 40


@pytest.fixture
def watch(shop: Shop) -> Iterator[BrokerWatch]:
    watch = BrokerWatch(shop.server.port)
    yield watch
    watch.close()


def lost(shop: Shop, ids: list[str]) -> list[str]:
    """While no worker is up: the tasks that are neither in Celery's broker nor parked nor done."""
    held = b" ".join(
        [*shop.broker.lrange("celery", 0, -1), *shop.broker.hvals("unacked"), *shop.queue.keys("*parked*")]
    )
    return [name for name in ids if name.encode() not in held and not shop.tasks.app.AsyncResult(name).ready()]


def send(shop: Shop, number: int, **named: str) -> Any:
    call = {"link": shop.tasks.effect.s("effects"), **named}
    return shop.tasks.generate.apply_async((f"q{number}",), {"max_tokens": 2}, **call)


def send_again_what_the_broker_lost(shop: Shop, watch: BrokerWatch, ids: list[str]) -> None:
    missing = lost(shop, ids)
    watch.up_to_now()
    told = [watch.told(name) for name in missing]
    assert all(watch.lost_it(name) for name in missing), f"lost, and not by the broker: {told}"
    print(f"lost by the broker in a kill: {len(missing)} of {len(ids)}", *told, sep="\n")
    for name in missing:
        send(shop, 0, task_id=name)


async def test_a_celery_worker_killed_at_any_moment_loses_nothing(shop: Shop, watch: BrokerWatch) -> None:
    """What Celery's broker itself lost in the kill is sent again; what was handed to our task may not be lost."""
    settings = {"TEST_VISIBILITY_S": "2", "TEST_LANDING_LEASE_S": "2"}
    first = await shop.celery(**settings)
    tasks = [send(shop, i) for i in range(TASKS)]

    async def some_wait() -> bool:
        return bool(shop.queue.llen(QUEUE) >= 5)

    await wait_until(some_wait, what="some are parked")
    first.kill()
    send_again_what_the_broker_lost(shop, watch, [task.id for task in tasks])
    await shop.engine()  # answers what it has while no Celery worker hears of it
    second = await shop.celery(**settings)

    async def some_done() -> bool:
        return len(shop.effects("published")) >= 5

    await wait_until(some_done, what="some were called back")
    shop.cut_busload()
    second.kill()
    send_again_what_the_broker_lost(shop, watch, [task.id for task in tasks])
    await shop.celery(**settings)
    texts = [await get(task) for task in tasks]
    await shop.until_nothing_is_parked()
    published = shop.effects("published")
    watch.up_to_now()
    assert all(watch.sent[task.id] and watch.taken[task.id] and watch.parked[task.id] for task in tasks), "it watched"
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
