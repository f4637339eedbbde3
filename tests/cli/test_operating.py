"""`busload queue`, `top`, `drain`: what an operator sees of a queue."""

from __future__ import annotations

from collections.abc import Callable

from tests.queue.steps import board, deliver
from tests.waiting import wait_until
from tests.worker_process import WorkerProcess

from busload.operating.draining import Pace
from busload.operating.watching import BUSES_KEPT, Watch
from busload_shared.queue import Queue
from busload_shared.replies import QueueInfo, Running, RunningBatch, WorkerInfo

from .conftest import CommandLine


def an_info(now_s: float, *, worker: WorkerInfo | None = None, **more: int) -> QueueInfo:
    counts = {name: more.pop(name) for name in ("succeeded", "failed") if name in more}
    depths = {"waiting": 0, "retry": 0, "inflight": 0, "leases": 0, "dead": 0} | more
    return QueueInfo(
        queue="q", now_ms=now_s * 1000, oldest_waiting_ms=None, oldest_retry_ms=None, oldest_inflight_ms=None,
        workers=(worker,) if worker else (), counters=counts, **depths,
    )  # fmt: skip


def a_worker(*, rows: int, batches: int) -> WorkerInfo:
    return WorkerInfo(name="w", state="ready", max_batch_size=8, rows_done=rows, batches_done=batches)


def a_batch(name: str, *, claimed_ms: float = 0, waited_ms: float | None = 5) -> RunningBatch:
    return RunningBatch(name, 4, "full", claimed_ms, "w", 4, waited_ms)


def test_the_queue_is_shown_for_people_and_for_programs(
    busload: CommandLine, start_worker: Callable[..., WorkerProcess]
) -> None:
    nobody = busload("queue")
    assert (nobody.code, nobody.err) == (0, "")
    assert "no worker is up: start one with busload-worker" in nobody.out
    start_worker(worker_name="w-of-the-test")
    busload.bury("a")
    (record,) = busload("queue", "--json").json
    assert (record["waiting"], record["dead"], record["workers"][0]["name"]) == (0, 1, "w-of-the-test")
    shown = busload("queue")
    assert "w-of-the-test  ready" in shown.out
    assert "see busload dead list" in shown.out


def test_one_frame_of_top_fits_in_eighty_columns(
    busload: CommandLine, start_worker: Callable[..., WorkerProcess]
) -> None:
    start_worker(worker_name="w-of-the-test", fake_per_token_ms=1)

    async def one_is_out(queue: Queue) -> None:
        async def is_out() -> bool:
            return bool((await queue.running()).batches)

        await wait_until(is_out, what="the batch is out")

    busload("submit", "Hello", "--id", "a", "--max-tokens", "100000")
    busload.on_queue(one_is_out)
    ended = busload("top", "--once", "--interval-s", "0.3")
    assert (ended.code, ended.err) == (0, "")
    assert max(map(len, map(str.rstrip, ended.out.splitlines()))) <= 80
    assert "w-of-the-test" in ended.out
    assert "timeout" in ended.out
    assert "\x1b" not in ended.out
    (frame,) = busload("top", "--once", "--interval-s", "0.3", "--json").json
    (bus,) = frame["buses"]
    assert (bus["batch"]["size"], bus["batch"]["trigger"], bus["is_back"]) == (1, "timeout", False)
    assert bus["batch"]["waited_ms"] >= 0
    assert busload("cancel", "a").out == "a running\n"


async def test_running_tells_of_each_batch_that_is_out(queue: Queue) -> None:
    for name in "abc":
        await queue.redis.lpush(queue.keys.queue, f'{{"id":"{name}","prompt":"x"}}')
    await queue.stamp()
    assert queue.now_ms is not None
    queue.now_ms += 700
    claim = await board(queue, "b1", cap=2)
    running = await queue.running()
    assert running.now_ms == queue.now_ms
    assert running.batches == (RunningBatch("b1", 2, "full", queue.now_ms, "w1", 2, 700.0),)
    await queue.redis.hset(queue.keys.batches, "junk", "x")
    await deliver(queue, claim)
    assert (await queue.running()).batches == ()


def test_rates_and_fill_are_those_of_the_last_looks() -> None:
    watch = Watch()
    first = watch.look(an_info(100, worker=a_worker(rows=80, batches=20), succeeded=70, failed=10))
    assert (first.answered_per_s, first.fill, first.mean_size) == (None, None, None)
    frame = watch.look(an_info(105, worker=a_worker(rows=120, batches=30), succeeded=105, failed=15))
    assert (frame.answered_per_s, frame.failed_per_s, frame.batches_per_s) == (8.0, 1.0, 2.0)
    assert (frame.mean_size, frame.fill) == (4.0, 0.5)
    later = watch.look(an_info(200, worker=a_worker(rows=120, batches=30), succeeded=105, failed=15))
    assert later.batches_per_s == 0.0


def test_a_worker_that_started_anew_counts_from_its_start() -> None:
    watch = Watch()
    watch.look(an_info(100, worker=a_worker(rows=800, batches=100)))
    assert watch.look(an_info(101, worker=a_worker(rows=6, batches=2))).mean_size == 3.0


def test_a_bus_that_is_no_longer_out_is_back_and_keeps_its_wait() -> None:
    watch = Watch()
    watch.see(Running(1000, (a_batch("a", claimed_ms=900),)))
    watch.see(Running(1500, (a_batch("a", claimed_ms=900, waited_ms=None), a_batch("b", claimed_ms=1400))))
    watch.see(Running(2000, (a_batch("b", claimed_ms=1400),)))
    newest, oldest = watch.look(an_info(2)).buses
    assert (newest.batch.batch, newest.is_back, newest.out_ms) == ("b", False, 600)
    assert (oldest.batch.batch, oldest.is_back, oldest.out_ms, oldest.batch.waited_ms) == ("a", True, 600, 5)


def test_the_buses_of_a_long_watch_do_not_pile_up() -> None:
    watch = Watch()
    for number in range(3 * BUSES_KEPT):
        watch.see(Running(number, (a_batch(f"b{number}", claimed_ms=number),)))
    assert len(watch.look(an_info(1)).buses) == BUSES_KEPT


def test_draining_an_empty_queue_is_done_at_once(busload: CommandLine) -> None:
    ended = busload("drain", "--json")
    assert ended.code == 0
    assert ended.json[0].items() >= {"empty": True, "left": 0, "answered": 0}.items()


def test_a_queue_that_does_not_get_empty_in_time_ends_with_1(busload: CommandLine) -> None:
    busload.enqueue("a", "b")
    ended = busload("drain", "--timeout-s", "0.3", "--json")
    assert ended.code == 1
    assert ended.json[0].items() >= {"empty": False, "left": 2}.items()
    assert "no worker is ready" in ended.err
    assert "2 left" in ended.err


def test_a_drain_waits_for_what_waits_and_what_runs(
    busload: CommandLine, start_worker: Callable[..., WorkerProcess]
) -> None:
    busload.enqueue(*(f"r{number}" for number in range(20)))
    start_worker(max_batch_size=4)
    ended = busload("drain", "--timeout-s", "60")
    assert ended.code == 0, ended.err
    assert "busload:default is empty" in ended.out
    assert busload("queue", "--json").json[0]["counters"]["succeeded"] == 20


def test_how_long_a_drain_takes_is_told_from_its_pace() -> None:
    pace = Pace(began=0.0, first=100)
    assert pace.look(an_info(0, waiting=50, succeeded=100), 0.0).eta_s is None
    look = pace.look(an_info(5, waiting=30, inflight=10, succeeded=110), 5.0)
    assert (look.done, look.left, look.eta_s) == (10, 40, 20.0)
    assert not look.is_served
