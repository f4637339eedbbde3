"""The housekeeping tasks, each run twice; and what an application without Celery or without settings is told."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.celery_door.conftest import Shop
from tests.redis_servers import Server
from tests.waiting import wait_until

from busload_shared.replies import DeadLetter
from busload_shared.reports import RUNNING, Reports

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of Celery's own imports
    from busload.celery_app import beat_schedule
    from busload.celery_door import chores
    from busload.celery_door.door import Line
    from busload.celery_door.failures import TaskQueueFull, portable
    from busload.celery_door.housekeeping import _once
    from busload.celery_door.settings import DoorSettings
    from busload.celery_door.tickets import task_request, ticket_of

from busload import QueueFull, SettingsInvalid

QUEUE = "busload:test"


@pytest.fixture
async def line(any_server: Server) -> AsyncIterator[Line]:
    line = Line(DoorSettings(redis_url=any_server.url, queue=QUEUE))
    yield line
    await line.close()


def letter(name: str, *, at_ms: float = 1.0, code: str = "poison") -> bytes:
    payload = f'{{"id":"{name}","prompt":"p"}}'
    dead = DeadLetter(
        id=name, code=code, message="m", at_ms=at_ms, enqueued_ms=1, attempts=2, batch="b", worker="w", payload=payload
    )
    return dead.model_dump_json().encode()


PLAN = chores.RedrivePlan(reasons=("poison",), older_s=10, at_most=2, limit_per_id=2)


async def redrive(line: Line, number: int, now_ms: float) -> Any:
    return await chores.redrive(line, chores.Interval("redrive-60", number, now_ms), plan=PLAN)


async def test_old_letters_of_the_given_reasons_are_put_back_the_oldest_first_up_to_the_limit(line: Line) -> None:
    dead = line.queue.keys.dead
    await line.queue.redis.rpush(dead, letter("young", at_ms=95_000), letter("other", code="too_heavy"))
    await line.queue.redis.rpush(dead, letter("c"), letter("b"), letter("a"))
    report = await redrive(line, 1, 100_000)
    assert (report.redriven, report.given_up, report.too_young) == (("a", "b"), 0, 0)
    report = await redrive(line, 2, 100_000)
    assert (report.redriven, report.too_young) == (("c",), 1)
    assert await line.queue.redis.llen(QUEUE) == 3


async def test_each_time_a_letter_waits_twice_as_long_and_an_id_is_given_up_at_its_limit(line: Line) -> None:
    dead, told = line.queue.keys.dead, []
    for age_ms in (10_000, 19_999, 20_000, 1e9):
        await line.queue.redis.delete(dead)
        await line.queue.redis.rpush(dead, letter("a", at_ms=1e9))
        report = await redrive(line, 1, 1e9 + age_ms)
        told.append((len(report.redriven), report.too_young, report.given_up))
    assert told == [(1, 0, 0), (0, 1, 0), (1, 0, 0), (0, 0, 1)]


async def test_an_interval_is_done_once_and_a_second_run_gets_its_report(line: Line) -> None:
    runs = []

    async def chore(line: Line, interval: chores.Interval) -> chores.ExpiryReport:
        runs.append(interval)
        return await chores.expiry_report(line, interval)

    first = await _once(line, "expiry", chore, 1e6, 1e7)
    assert await _once(line, "expiry", chore, 1e6, 1e7) == first
    assert len(runs) == 1
    assert first["expired_since"] is None


async def test_while_one_is_at_it_another_does_nothing_and_after_its_death_the_next_does(line: Line) -> None:
    reports: Reports = line.reports
    assert await reports.begin("k", 1, lease_s=0.05) is None
    assert await reports.begin("k", 1, lease_s=0.05) in (RUNNING, None)

    async def over() -> bool:
        return await reports.begin("k", 1, lease_s=60) is None

    await wait_until(over)
    assert await reports.begin("k", 1, lease_s=60) == RUNNING


async def test_a_rollup_tells_by_how_much_each_counter_grew(line: Line) -> None:
    await line.queue.redis.hset(line.queue.keys.stats, "succeeded", 5)
    before = await chores.metrics_rollup(line, chores.Interval("metrics-60", 1, 0))
    await line.reports.write("metrics-60", 1, before.model_dump_json().encode(), ttl_s=60)
    await line.queue.redis.hset(line.queue.keys.stats, "succeeded", 12)
    after = await chores.metrics_rollup(line, chores.Interval("metrics-60", 2, 0))
    assert (before.grown, after.grown) == (None, {"succeeded": 7})


async def test_the_digest_counts_letters_by_code(line: Line) -> None:
    await line.queue.redis.rpush(line.queue.keys.dead, letter("a"), b"junk", letter("b", code="too_heavy", at_ms=0.5))
    digest = await chores.dead_letter_digest(line, chores.Interval("dead-60", 1, 0))
    assert (digest.letters, digest.unreadable, digest.oldest_at_ms) == (3, 1, 0.5)
    assert (digest.by_code, digest.newest["poison"]) == ({"poison": 1, "too_heavy": 1}, ("a",))


def test_nothing_is_redriven_unless_reasons_are_given() -> None:
    assert "busload.redrive" not in beat_schedule()
    entry = beat_schedule(redrive={"reasons": ["engine_error"]}, redrive_s=60)["busload.redrive"]
    assert entry["kwargs"] == {"reasons": ["engine_error"], "interval_s": 60}
    assert list(beat_schedule(expiry_report_s=0, dead_letter_digest_s=0)) == ["busload.metrics_rollup"]


@pytest.mark.parametrize("task_id", ["a", "0b9f-1:2", "with space", "x" * 300])
def test_a_task_s_request_has_an_id_that_leads_back_to_its_ticket(task_id: str) -> None:
    ticket = task_request(task_id, 3)
    assert ticket_of(ticket.request_id) == ticket
    assert len(ticket.request_id) <= 256
    assert " " not in ticket.request_id
    assert ticket_of("plain:7").name == "plain:7"


def test_a_full_queue_is_an_error_that_celery_can_carry() -> None:
    error = portable(QueueFull("q", depth=2, limit=2, expected_wait_s=1.5))
    again = TaskQueueFull(*error.args)
    assert isinstance(again, QueueFull)
    assert (str(again), again.depth, again.expected_wait_s) == (str(error), 2, 1.5)


def test_a_wrong_setting_says_what_to_write() -> None:
    with pytest.raises(SettingsInvalid, match="write text or result"):
        DoorSettings(returns="all")  # type: ignore[arg-type]
    with pytest.raises(SettingsInvalid, match="busload_look_s=0: give seconds"):
        DoorSettings(look_s=0)


def test_without_celery_the_error_names_the_extra() -> None:
    code = "import sys; sys.modules['celery'] = None\nimport busload.celery_app"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert 'Run: pip install "busload[celery]"' in ended.stderr


async def test_a_worker_of_the_ready_made_application_is_set_by_the_environment(shop: Shop) -> None:
    broker = shop.environment["TEST_BROKER"]
    worker = await shop.celery(application="busload.celery_app", CELERY_BROKER_URL=broker)
    await shop.engine()
    app = shop.tasks.app
    assert "busload.metrics_rollup" in worker.log()
    sent = app.send_task("busload.generate", ("a question",), {"max_tokens": 2})
    stored = f"celery-task-meta-{sent.id}"  # where the broker is, for want of CELERY_RESULT_BACKEND

    async def answered() -> bool:
        return b'"SUCCESS"' in (shop.broker.get(stored) or b"")

    await wait_until(answered, timeout_s=30)
