"""The whole deployment, with vLLM and a real model: work through every door, workers that come and go, workers and a
Redis that die. Each test ends with every request so far answered once."""

from __future__ import annotations

import json
from datetime import datetime

import httpx
import pytest
from celery import Celery
from redis import Redis
from tests.compose.asking import LONG, Ledger
from tests.compose.stack import QUEUE, Stack, tell, wait_for

from busload import Client
from busload_shared.errors import BusloadUnavailable

pytestmark = pytest.mark.compose

START_S = 60.0
"""What a worker's start may take from a warm cache."""


def names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}-{number}" for number in range(count)]


def test_two_hundred_requests_come_through_three_doors(stack: Stack, ledger: Ledger) -> None:
    ledger.by_client(names("client", 70))
    ledger.by_redis_cli(names("lpush", 60))
    ledger.by_gateway(names("gateway", 70))
    results = ledger.settle()
    assert len(results) == 200
    assert len({result.worker for result in results}) == 2
    ledger.check()


def test_the_command_line_is_there(stack: Stack) -> None:
    said = json.loads(stack.compose("run", "--rm", "-T", "busload", "queue", "--json"))
    assert said["queue"] == QUEUE
    assert len(said["workers"]) == 2


def test_every_container_says_that_it_is_well(stack: Stack) -> None:
    services = ("redis", "worker", "gateway", "exporter", "prometheus")
    wait_for(lambda: all(map(stack.is_well, services)), within_s=60, what="every health check passes")


def test_redis_is_as_its_files_and_env_say(stack: Stack) -> None:
    with Redis.from_url(stack.redis_url("operator")) as redis:
        found = {name: redis.config_get(name)[name] for name in ("appendonly", "maxmemory-policy", "maxmemory")}
    assert found == {"appendonly": "yes", "maxmemory-policy": "noeviction", "maxmemory": str(256 * 1024**2)}


def test_the_anonymous_user_and_wrong_passwords_are_refused(stack: Stack) -> None:
    address = stack.address("redis", 6379)
    for url in (f"redis://{address}/0", f"redis://worker:not-the-password@{address}/0"):
        with Client(url, patience_s=0) as client, pytest.raises(BusloadUnavailable):
            client.queue_info()


def test_prometheus_sees_all_and_has_the_rules(stack: Stack) -> None:
    api = f"http://{stack.address('prometheus', 9090)}/api/v1"

    def seen() -> bool:
        targets = httpx.get(f"{api}/targets").json()["data"]["activeTargets"]
        up = sorted(target["labels"]["job"] for target in targets if target["health"] == "up")
        return up == ["busload-exporter", "busload-gateway", "busload-worker", "busload-worker"]

    wait_for(seen, within_s=90, what="Prometheus scrapes two workers, the exporter and the gateway")
    groups = httpx.get(f"{api}/rules").json()["data"]["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert {rule["type"] for rule in rules} == {"recording", "alerting"}

    def evaluated() -> bool:
        again = httpx.get(f"{api}/rules").json()["data"]["groups"]
        return all(rule["health"] == "ok" for group in again for rule in group["rules"])

    wait_for(evaluated, within_s=90, what="every rule has been evaluated")
    tell(f"{len(rules)} rules in {len(groups)} groups")


def test_workers_come_and_go_under_load(stack: Stack, ledger: Ledger) -> None:
    with ledger.load("scaled"):
        stack.compose("up", "-d", "--no-deps", "--no-recreate", "--scale", "worker=4", "worker", within_s=300)
        stack.await_workers(4)
        tell("four workers are ready")
        stack.compose("up", "-d", "--no-deps", "--no-recreate", "--scale", "worker=1", "worker", within_s=300)
    assert len(stack.containers("worker")) == 1
    results = ledger.settle()
    tell(f"{len(results)} requests while workers went from 2 to 4 to 1")
    assert {result.attempts for result in results} == {1}
    ledger.check()


def test_a_worker_is_ready_within_a_minute_from_a_warm_cache(stack: Stack) -> None:
    (container,) = stack.containers("worker")
    stack.docker("restart", container)
    wait_for(lambda: stack.is_ready(container), within_s=120, what="the worker is ready again")
    began = datetime.fromisoformat(stack.inspect(container)["State"]["StartedAt"][:26] + "+00:00").timestamp()
    ready_s = float(stack.docker("exec", container, "stat", "-c", "%.Y", "/tmp/busload-ready")) - began
    memory = stack.docker("stats", "--no-stream", "--format", "{{.MemUsage}}", container).split(" /")[0]
    tell(f"a worker was ready {ready_s:.1f} s after its start, with {memory}")
    assert 0 < ready_s < START_S


def test_a_worker_that_is_killed_in_a_batch_loses_nothing(stack: Stack, ledger: Ledger) -> None:
    stack.compose("up", "-d", "--no-deps", "--no-recreate", "--scale", "worker=2", "worker", within_s=300)
    stack.await_workers(2)
    ledger.by_client(names("killed", 16), **LONG)
    with ledger.client("operator") as client:

        def running() -> list[str]:
            return [worker.name for worker in client.queue_info().workers if worker.batch is not None]

        (victim, *_) = wait_for(running, within_s=30, what="a worker runs a batch")
    (container,) = [one for one in stack.containers("worker") if victim.startswith(one[:12])]
    stack.docker("kill", container)
    results = ledger.settle()
    assert {result.worker for result in results if result.attempts > 1} - {victim}, "nothing had to run again"
    ledger.check()


def test_redis_restarts_under_load(stack: Stack, ledger: Ledger) -> None:
    (redis,) = stack.containers("redis")
    with ledger.load("restart"):
        ledger_had = len(ledger.asked)
        wait_for(lambda: len(ledger.asked) > ledger_had + 5, within_s=30, what="requests are on their way")
        stack.docker("restart", redis)
        ledger_had = len(ledger.asked)
        wait_for(lambda: len(ledger.asked) > ledger_had + 5, within_s=90, what="requests are taken again")
    ledger.settle()
    ledger.check()


def test_what_waits_outlives_a_stop_of_everything(stack: Stack, ledger: Ledger) -> None:
    stack.compose("stop", "worker", within_s=180)
    ledger.by_redis_cli(names("stopped", 20))
    stack.compose("stop", within_s=180)
    assert stack.containers("redis") == []
    stack.compose("up", "-d", "--scale", "worker=1", within_s=300)
    stack.await_workers(1)
    ledger.by_gateway(names("after", 4))
    assert len(ledger.settle()) == 24
    ledger.check()


def test_celery_runs_tasks_and_housekeeping(stack: Stack, ledger: Ledger) -> None:
    stack.compose("--profile", "celery", "up", "-d", "--no-recreate", "celery-worker", "celery-beat", within_s=300)
    broker = stack.redis_url("celery", database=1)
    app = Celery(broker=broker, backend=broker, set_as_current=False)
    text = app.send_task("busload.generate", ("The capital of France is",), {"max_tokens": 4}).get(timeout=120)
    assert text
    report = app.send_task("busload.expiry_report").get(timeout=60)
    assert report is not None

    def by_beat() -> bool:
        return "Scheduler: Sending due task" in stack.logs("celery-beat")

    wait_for(by_beat, within_s=120, what="beat sends what is due")
    services = ("celery-worker", "celery-beat")
    wait_for(lambda: all(map(stack.is_well, services)), within_s=120, what="Celery's health checks pass")
    with ledger.client("operator") as client:
        assert client.queue_info().counters["succeeded"] == len(ledger.asked) + 1


def test_no_service_was_refused_anything(stack: Stack) -> None:
    with Redis.from_url(stack.redis_url("operator")) as redis:
        said = redis.acl_log(128)
    refused = {f"{entry['username']}: {entry['object']}" for entry in said if entry["reason"] != "auth"}
    assert {line for line in refused if line.partition(":")[0] in ("worker", "celery", "operator")} == set()
