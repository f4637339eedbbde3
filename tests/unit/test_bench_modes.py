"""The pure parts of the modes benchmark: its requests and its figures. No engine runs."""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from busload_shared.request import Request
from busload_worker.lengths import Lengths, predict

ROOT = Path(__file__).parents[2]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """The benchmark's modules: they import each other by bare names, from their own folder."""
    monkeypatch.setattr(sys, "path", [str(ROOT / "ops" / "bench"), *sys.path])
    import modes_figures
    import modes_requests

    return modes_requests, modes_figures


def test_lengths_follow_their_law_and_the_seed_decides_them(bench: tuple[Any, Any]) -> None:
    making, _ = bench
    law = making.Law(median=20, sigma=1.0, most=4000)
    jobs = making.jobs(law, 20_000, seed=3)
    lengths = sorted(job.tokens for job in jobs)
    assert lengths[10_000] == pytest.approx(20, rel=0.1)
    assert making.log_deviation(lengths) == pytest.approx(1.0, abs=0.1)
    assert making.jobs(law, 50, seed=3) == jobs[:50]
    assert making.jobs(law, 50, seed=4) != jobs[:50]


def test_only_the_oracle_s_requests_tell_their_length(bench: tuple[Any, Any]) -> None:
    making, _ = bench
    jobs = making.jobs(making.Law(median=20, sigma=1.0), 200, seed=1)
    told = [predict(Request(**job.request("a", "oracle")), Lengths()) for job in jobs]
    assert told == [(job.tokens, 0) for job in jobs]
    for hint in ("noisy", "learned", "none"):
        assert len({predict(Request(**job.request("a", hint)), Lengths()) for job in jobs}) == 1
    with_each = [job.request("a", "none") for job in jobs]
    assert [request["seed"] for request in with_each] == [job.tokens for job in jobs]


def test_a_noisy_route_is_a_prediction_with_its_error(bench: tuple[Any, Any]) -> None:
    making, _ = bench
    jobs = making.jobs(making.Law(median=100, sigma=1.0, most=100_000), 20_000, seed=2)
    errors = [
        job.tokens / 2 ** (int(job.noisy_route.removeprefix("about-")) / making.BUCKETS_PER_OCTAVE) for job in jobs
    ]
    assert making.log_deviation(errors) == pytest.approx(making.LOG_ERROR, abs=0.02)
    assert len({job.noisy_route for job in jobs}) < 100


def test_arrivals_come_at_their_rate(bench: tuple[Any, Any]) -> None:
    making, _ = bench
    times = making.arrivals_s(5000, 8.0, seed=1)
    assert times == sorted(times)
    assert times[-1] == pytest.approx(5000 / 8.0, rel=0.05)


def _rows(figures: Any, batches: list[list[int]], *, text: str = "same") -> list[Any]:
    """Served rows with these lengths, the batches one after the other, a second each."""
    rows: list[Any] = []
    for at, lengths in enumerate(batches):
        for tokens in lengths:
            end = at + 1.0
            rows.append(
                figures.Served(len(rows), tokens, end, end, batch=f"b{at}", size=len(lengths), run_ms=1000.0, text=text)
            )
    return rows


def test_the_figures_of_a_run(bench: tuple[Any, Any]) -> None:
    _, figures = bench
    found = figures.figures(_rows(figures, [[10, 20], [30]]), seats=2)
    assert (found.requests, found.batches, found.per_s, found.tokens_per_s) == (3, 2, 1.5, 30)
    assert found.fill == 0.75
    assert found.effective == 60 / (2 * 20 + 2 * 30)
    assert (found.mean_s, found.p50_s, found.p99_s) == (pytest.approx(4 / 3), 1.0, 2.0)
    assert found.engine_share == 1.0


def test_texts_are_compared_where_the_batches_are_the_same(bench: tuple[Any, Any]) -> None:
    _, figures = bench
    ours, theirs = _rows(figures, [[1, 2], [3, 4]]), _rows(figures, [[1, 2], [3], [4]])
    assert figures.same_texts(ours, ours) == (4, 4, 4)
    assert figures.same_texts(ours, theirs) == (2, 2, 4)
    assert figures.same_texts(ours, _rows(figures, [[1, 2], [3, 4]], text="other")) == (0, 4, 4)


def test_ratios_are_taken_repeat_by_repeat(bench: tuple[Any, Any]) -> None:
    _, figures = bench
    runs: dict[str, dict[int, Any]] = defaultdict(dict)
    for repeat, seconds in enumerate((1.0, 10.0)):  # a machine that is ten times slower the second time
        for mode, factor in (("textbook", 1.0), ("early release", 0.5)):
            row = figures.Served(0, 8, seconds * factor, seconds, batch="b", size=1)
            runs[mode][repeat] = figures.figures([row], seats=1)
    found = figures.summary(runs, "textbook")
    assert found["early release"]["mean_s ratio"] == {"median": 0.5, "min": 0.5, "max": 0.5, "n": 2}
    assert math.isclose(found["textbook"]["mean_s"]["median"], 5.5)


def test_a_verdict_says_what_was_wanted(bench: tuple[Any, Any]) -> None:
    _, figures = bench
    assert figures.verdict("x", [1.0, 1.6, 2.0], at_least=1.5).endswith("wanted >= 1.5: yes")
    assert figures.verdict("x", [0.9], at_least=0.98, at_most=1.02).endswith("wanted >= 0.98 and <= 1.02: NO")
    assert "wanted" not in figures.verdict("x", [0.9])
