"""kill -9 at any point: the same command goes on, no line is missing or twice, and nothing is run again."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.bulk.conftest import QUEUE, Command, records, write_lines
from tests.waiting import wait_until
from tests.worker_process import WorkerProcess

from busload_shared.connection import open_redis
from busload_shared.queue import Queue

LINES, BAD, KILLS = 600, 6, 10
Start = Callable[..., "subprocess.Popen[str]"]


async def test_ten_kills_lose_no_line_write_none_twice_and_run_nothing_again(
    worker: WorkerProcess, start_busload: Start, busload: Command, any_redis_url: str, tmp_path: Path
) -> None:
    lines = [{"custom_id": f"c{i}", "prompt": f"p{i}", "max_tokens": 2} for i in range(LINES)]
    write_lines(tmp_path / "in.jsonl", *("broken" if i % (LINES // BAD) == 7 else line for i, line in enumerate(lines)))
    output, command = tmp_path / "out.jsonl", ("run", "in.jsonl", "-o", "out.jsonl", "--in-flight", "32")
    chance = random.Random(11)
    killed = 0
    for share in sorted(chance.uniform(0, 0.8) for _ in range(KILLS)):
        process = start_busload(*command)
        await reached(process, output, share * LINES)
        await asyncio.sleep(chance.uniform(0, 0.02))  # anywhere within a batch
        process.send_signal(signal.SIGKILL)
        process.communicate()
        killed += process.returncode == -signal.SIGKILL

    assert killed >= KILLS // 2, "the run was over before it was killed"
    done = busload(*command)

    assert done.returncode == 1, done.stderr
    assert f"read {LINES:,} = " in done.stdout
    good, bad = records(output), records(tmp_path / "out.errors.jsonl")
    assert sorted(one["line"] for one in good + bad) == list(range(1, LINES + 1))
    assert len(bad) == BAD
    assert all(one["custom_id"] == f"c{one['line'] - 1}" and one["attempts"] == 1 for one in good)
    assert await rows_run(any_redis_url, LINES - BAD) == LINES - BAD


async def reached(process: subprocess.Popen[str], output: Path, lines: float) -> None:
    """The output has so many lines, or the process has ended."""

    def written() -> int:
        return output.read_bytes().count(b"\n") if output.exists() else -1

    async def there() -> bool:
        return written() >= lines or process.poll() is not None

    await wait_until(there, timeout_s=60, what=f"{lines:.0f} lines are written")


async def rows_run(redis_url: str, expected: int) -> int:
    """How many rows the worker has run and the queue has dropped at a claim; waits until it tells of as many."""
    queue = Queue(open_redis(redis_url), QUEUE)

    async def told() -> int:
        info = await queue.info()
        rows = sum(worker.rows_done for worker in info.workers) + info.counters.get("dropped", 0)
        return rows if rows >= expected else 0

    rows = await wait_until(told, what=f"{expected} rows were run")
    await queue.redis.aclose()
    return rows


async def test_a_torn_last_line_is_cut_off_and_its_result_fetched_again(
    worker: WorkerProcess, busload: Command, any_redis_url: str, tmp_path: Path
) -> None:
    write_lines(tmp_path / "in.jsonl", *({"prompt": f"p{i}", "max_tokens": 2} for i in range(20)))
    for target, expected in (("out.jsonl", 20), ("out.csv", 21)):
        assert busload("run", "in.jsonl", "-o", target).returncode == 0
        path = tmp_path / target
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) * 2 // 3])

        done = busload("run", "in.jsonl", "-o", target)

        assert done.returncode == 0, done.stderr
        assert " done before" in done.stdout
        again = path.read_bytes()
        assert sorted(again.splitlines()) == sorted(whole.splitlines())
        assert len(again.splitlines()) == expected
    assert await rows_run(any_redis_url, 40) == 40
