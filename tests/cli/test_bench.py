"""`busload bench`: a small load on the user's own workers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.worker_process import WorkerProcess

from .conftest import CommandLine


@pytest.mark.parametrize("pace", [["--concurrency", "8"], ["--rate", "200"]])
def test_a_load_is_answered_and_summed_up(
    busload: CommandLine, start_worker: Callable[..., WorkerProcess], pace: list[str]
) -> None:
    start_worker(max_batch_size=4)
    ended = busload("bench", "--requests", "20", "--max-tokens", "4", "--json", "--timeout-s", "60", *pace)
    assert ended.code == 0, ended.err
    (report,) = ended.json
    assert (report["succeeded"], report["failed"]) == (20, 0)
    assert sum(int(size) * count for size, count in report["sizes"].items()) == 20
    assert report["batches"] == sum(report["triggers"].values())
    assert 0 < report["fill"] <= 1
    assert report["latency"]["p50"] <= report["latency"]["p99"] <= report["latency"]["most"]
    assert "20 real requests for 1 ready worker of busload:default" in ended.err
    shown = busload("bench", "--requests", "4", "--max-tokens", "4")
    assert "4 succeeded, 0 failed" in shown.out


def test_a_load_that_is_not_answered_in_time_is_called_off(busload: CommandLine) -> None:
    ended = busload("bench", "--requests", "3", "--timeout-s", "0.3")
    assert (ended.code, ended.out) == (1, "")
    assert "no worker is ready" in ended.err
    assert "what was out is cancelled" in ended.err
    counters = busload("queue", "--json").json[0]["counters"]
    assert counters["cancelled"] == 3
