"""`busload plan`: what it reads, that it finds the fewest workers, what it shows and how it exits."""

from __future__ import annotations

import io
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from busload.plan import charts, reading, run, search
from busload.plan.run import PlanOptions, run_plan
from busload.plan.search import Choice, Goal, Plan, choices, fewest_workers, front
from busload_shared.curve import ServiceCurve
from busload_worker.simulation import Constant, History, Lognormal, Poisson, Scenario, Trace, simulate

CURVE = ServiceCurve(overhead_ms=10.0, prompt_ms=0.02, step_ms=20.0, token_ms=0.05)
BASE = Scenario(CURVE, Poisson(20.0), Lognormal(40, 0.8), prompt_tokens=50, requests=2000)
GOAL = Goal(per_s=20.0, p99_ms=8000.0, most_workers=64)


def test_a_curve_is_four_numbers() -> None:
    assert reading.read_curve("10,0.02,20,0.05") == CURVE
    for wrong in ("", "1,2,3", "1,2,3,-4", "0,0,0,0", "1,2,3,x", "1,2,3,nan", "inf,0,0,0"):
        with pytest.raises(reading.PlanInvalid, match="--curve"):
            reading.read_curve(wrong)


def test_laws_of_length_are_read_by_name(tmp_path: Path) -> None:
    file = tmp_path / "lengths"
    file.write_text("# new tokens\n12\n\n40 # one\n7\n")
    assert reading.read_law("constant:64") == Constant(64)
    assert reading.read_law("lognormal:80:1.5") == Lognormal(80, 1.5)
    assert reading.read_law(f"file:{file}") == History([12, 40, 7])
    for wrong in ("", "normal:3", "lognormal:80", "constant:0", "constant:x", "bimodal:1:2", "file:/nowhere/at/all"):
        with pytest.raises(reading.PlanInvalid, match="--length-law"):
            reading.read_law(wrong)


def test_a_trace_gives_the_rate_and_maybe_the_lengths(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("100.0, 5\n100.5, 7\n102.0, 9\n")
    arrivals, per_s = reading.read_arrivals(None, file)
    assert isinstance(arrivals, Trace)
    assert arrivals.times_ms == pytest.approx((0, 500, 2000))
    assert per_s == pytest.approx(1.0)
    assert reading.lengths_of(file) == History([5, 7, 9])
    file.write_text("1\n2\n")
    assert reading.lengths_of(file) is None
    for wrong in ("", "5\n", "5\n5\n", "one\ntwo\n"):
        file.write_text(wrong)
        with pytest.raises(reading.PlanInvalid, match="--trace"):
            reading.read_arrivals(None, file)
    with pytest.raises(reading.PlanInvalid, match="--rate"):
        reading.read_arrivals(None, None)


@pytest.mark.parametrize("choice", [Choice(1, "fifo", 0.0), Choice(16, "fifo", 50.0), Choice(16, "length", "auto")])
def test_one_worker_less_would_miss_the_target(choice: Choice) -> None:
    plan = fewest_workers(BASE, GOAL, choice)
    assert plan.met
    assert plan.outcome.p99_ms <= GOAL.p99_ms
    fewer = replace(BASE, size=choice.size, order=choice.order, wait_ms=choice.wait_ms, workers=plan.workers - 1)
    capacity = search.capacity_per_s(BASE, choice) * (plan.workers - 1)
    assert capacity < GOAL.per_s or simulate(fewer).p99_ms > GOAL.p99_ms


def test_among_many_workers_the_fewest_are_found_too() -> None:
    """Full use needs 30; the target needs some more, and steps up to it would be coarse."""
    flat = ServiceCurve(overhead_ms=100.0, prompt_ms=0.0, step_ms=0.0, token_ms=0.0)
    base = Scenario(flat, Poisson(300.0), Constant(1), requests=4000)
    plan = fewest_workers(base, Goal(300.0, 130.0, 1000), Choice(1, "fifo", 0.0))
    assert plan.met
    assert 31 < plan.workers < 50
    assert simulate(replace(base, size=1, workers=plan.workers - 1)).p99_ms > 130.0


def test_a_queue_that_grows_is_no_plan_however_short_the_run() -> None:
    """2,000 requests come and go within a target of an hour, even if one worker can do half of them a second."""
    plan = fewest_workers(BASE, replace(GOAL, p99_ms=3_600_000.0), Choice(4, "fifo", 0.0))
    assert search.capacity_per_s(BASE, plan.choice) * plan.workers >= GOAL.per_s


def test_what_cannot_be_met_is_said_to_be_missed() -> None:
    assert not fewest_workers(BASE, replace(GOAL, p99_ms=1.0), Choice(8, "fifo", 0.0)).met
    assert not fewest_workers(BASE, replace(GOAL, p99_ms=1e9, most_workers=1), Choice(1, "fifo", 0.0)).met


def test_thousands_of_workers_can_be_planned() -> None:
    many = replace(BASE, arrivals=Poisson(15_000.0))
    plan = fewest_workers(many, replace(GOAL, per_s=15_000.0, most_workers=20_000), Choice(16, "fifo", 0.0))
    assert plan.met
    assert plan.workers > 1000


def test_a_batch_of_one_has_one_wait_and_one_order() -> None:
    assert len(choices([1, 8], ["fifo", "length"], [0.0, "auto"])) == 1 + 4


def test_the_front_is_what_no_other_plan_beats() -> None:
    outcome = simulate(replace(BASE, requests=200))
    made = [
        Plan(Choice(8, "fifo", 0.0), workers, replace(outcome, p99_ms=p99, per_s=20.0), True)
        for workers, p99 in ((1, 900.0), (2, 400.0), (2, 500.0), (4, 100.0), (5, 100.0))
    ]
    assert [(plan.workers, plan.outcome.p99_ms) for plan in front(made)] == [(4, 100.0), (2, 400.0), (1, 900.0)]


def test_a_chart_is_sound_svg_with_its_text_escaped() -> None:
    line = charts.Line("a < b", [(0.0, 1.0), (5.0, 0.3)])
    chart = charts.Chart("x & y", "time", "ms", [line, charts.Line("dots", [(1.0, 2.0)], joined=False)])
    root = ElementTree.fromstring(charts.svg(chart))
    texts = [node.text for node in root.iter() if node.tag.endswith("text")]
    assert {"x & y", "a < b", "time", "ms"} <= set(texts)
    assert len([node for node in root.iter() if node.tag.endswith("polyline")]) == 1
    ElementTree.fromstring(charts.svg(charts.Chart("empty", "", "", [])))


@pytest.mark.parametrize(
    ("most", "top"),
    [(0.0, 1.0), (0.003, 0.005), (0.9, 1.0), (1.0, 1.0), (7.3, 10.0), (21.0, 25.0), (40_000.0, 50_000.0)],
)
def test_axes_end_at_a_round_number(most: float, top: float) -> None:
    assert charts._round_up(most) == pytest.approx(top)


def options(**other: object) -> PlanOptions:
    given: dict[str, object] = {
        "curve": "10,0.02,20,0.05", "redis": None, "queue": "busload:test", "rate": 5.0, "trace": None,
        "length_law": "lognormal:40:0.8", "target_p99_ms": 20_000.0, "predictions": "noisy:0.5", "prompt_tokens": 50,
        "max_tokens": 512, "max_batch_tokens": None, "sizes": "4,8", "waits": "0", "orders": "fifo", "max_workers": 50,
        "price_per_hour": 2.5, "requests": 500, "seed": 1, "out": None, "top": 5,
    }  # fmt: skip
    return PlanOptions(**(given | other))  # type: ignore[arg-type]


def answer(**other: object) -> tuple[int, str]:
    out, err = io.StringIO(), io.StringIO()
    code = run_plan(options(**other), Console(file=out, width=200), Console(file=err, width=200))
    assert bool(out.getvalue()) == (code in (run.FOUND, run.NOT_FOUND))
    return code, out.getvalue() + err.getvalue()


def test_the_answer_names_the_settings_and_exits_with_0(tmp_path: Path) -> None:
    code, text = answer(out=tmp_path / "plots")
    assert code == run.FOUND
    assert "BUSLOAD_MAX_BATCH_SIZE=" in text
    assert "cost/h" in text
    assert {file.stem for file in (tmp_path / "plots").iterdir()} == {"latency", "fill", "pareto"}


def test_no_plan_exits_with_1_and_says_what_to_allow() -> None:
    code, text = answer(target_p99_ms=1.0, max_workers=2)
    assert code == run.NOT_FOUND
    assert "Allow more workers" in text


@pytest.mark.parametrize(
    "wrong",
    [
        {"curve": None}, {"curve": "1,2"}, {"rate": None}, {"length_law": None}, {"length_law": "x"}, {"sizes": "0"},
        {"sizes": "a"}, {"waits": "soon"}, {"orders": "random"}, {"predictions": "good"}, {"trace": Path("/nowhere")},
    ],
)  # fmt: skip
def test_a_question_that_is_not_understood_exits_with_2_and_names_the_option(wrong: dict[str, object]) -> None:
    code, text = answer(**wrong)
    assert code == run.INVALID
    assert f"--{next(iter(wrong)).replace('_', '-')}" in text


def test_a_redis_that_is_not_there_exits_with_3() -> None:
    code, text = answer(curve=None, redis="redis://127.0.0.1:1/0")
    assert code == run.NO_CURVE
    assert "busload plan:" in text


def test_the_command_shows_its_options_and_answers() -> None:
    command = [sys.executable, "-m", "busload", "plan"]
    shown = subprocess.run([*command, "--help"], capture_output=True, text=True, timeout=120, check=True).stdout
    assert "--target-p99-ms" in shown
    assert "Exits with 0" in shown
    words = ["--curve", "5,0,1,0.1", "--rate", "20", "--length-law", "constant:10", "--target-p99-ms", "500"]
    words += ["--sizes", "4", "--waits", "0", "--orders", "fifo", "--requests", "300"]
    answered = subprocess.run([*command, *words], capture_output=True, text=True, timeout=120, check=False)
    assert answered.returncode == 0, answered.stderr
    assert "Use 1 worker with BUSLOAD_MAX_BATCH_SIZE=4" in answered.stdout
