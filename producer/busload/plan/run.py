"""Runs a plan from the question to the answer: reads, searches, shows a table, draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from busload_shared.curve import ServiceCurve
from busload_shared.errors import BusloadError
from busload_worker.simulation import Arrivals, LengthLaw, Order, Poisson, Scenario, Trace, Wait

from ..client import Client
from .charts import Chart, Line, draw
from .reading import PlanInvalid, lengths_of, read_arrivals, read_curve, read_law, read_predictions
from .search import Choice, Goal, Plan, at_loads, choices, front, plans

FOUND, NOT_FOUND, INVALID, NO_CURVE = 0, 1, 2, 3
"""Exit codes."""

LOADS = (0.2, 0.4, 0.6, 0.8, 0.9, 1.0, 1.1, 1.2)
"""Shares of the rate that the plots show."""


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The command line, as it was typed."""

    curve: str | None
    redis: str | None
    queue: str
    rate: float | None
    trace: Path | None
    length_law: str | None
    target_p99_ms: float
    predictions: str
    prompt_tokens: int
    max_tokens: int
    max_batch_tokens: int | None
    sizes: str
    waits: str
    orders: str
    max_workers: int
    price_per_hour: float
    requests: int
    seed: int
    out: Path | None
    top: int


@dataclass(frozen=True, slots=True)
class _Question:
    base: Scenario
    goal: Goal
    choices: Sequence[Choice]


def run_plan(options: PlanOptions, console: Console, errors: Console) -> int:
    """Answer on `console`, or say on `errors` why not; returns the exit code."""
    try:
        curve = read_curve(options.curve) if options.curve else None
        if curve is None and options.redis is None:
            raise PlanInvalid("give --curve, or --redis to take what the workers there have learned")
        question = _question(options, curve or ServiceCurve(overhead_ms=0, prompt_ms=0, step_ms=0, token_ms=0))
    except PlanInvalid as error:
        errors.print(f"busload plan: {error}", style="red", markup=False, soft_wrap=True)
        return INVALID
    if curve is None:
        try:
            curve = _learned_curve(options.redis or "", options.queue)
        except BusloadError as error:
            errors.print(f"busload plan: {error}", style="red", markup=False, soft_wrap=True)
            return NO_CURVE
        question = _question(options, curve)
    return _answer(question, options, console)


def _question(options: PlanOptions, curve: ServiceCurve) -> _Question:
    arrivals, per_s = read_arrivals(options.rate, options.trace)
    base = Scenario(
        curve,
        arrivals,
        _lengths(options),
        predictions=read_predictions(options.predictions),
        prompt_tokens=options.prompt_tokens,
        max_tokens=options.max_tokens,
        max_batch_tokens=options.max_batch_tokens,
        requests=options.requests,
        seed=options.seed,
    )
    sizes = [int(size) for size in _words(options.sizes, "--sizes", str.isdecimal) if int(size)]
    orders = [cast(Order, order) for order in _words(options.orders, "--orders", ("fifo", "length").__contains__)]
    waits = [_wait(wait) for wait in _words(options.waits, "--waits", _is_wait)]
    if not sizes:
        raise PlanInvalid("--sizes: give at least one batch size, 1 or more")
    goal = Goal(per_s, options.target_p99_ms, options.max_workers)
    return _Question(base, goal, choices(sizes, orders, waits))


def _lengths(options: PlanOptions) -> LengthLaw:
    if options.length_law is not None:
        return read_law(options.length_law)
    law = lengths_of(options.trace) if options.trace is not None else None
    if law is None:
        raise PlanInvalid("give --length-law, such as lognormal:80:1, or a trace with new tokens in its second column")
    return law


def _words(text: str, option: str, good: object) -> list[str]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    bad = [word for word in words if not good(word)]  # type: ignore[operator]
    if bad or not words:
        raise PlanInvalid(f"{option} {text}: not understood: {', '.join(bad) or 'nothing given'}")
    return words


def _is_wait(word: str) -> bool:
    return word == "auto" or word.replace(".", "", 1).isdecimal()


def _wait(word: str) -> Wait:
    return "auto" if word == "auto" else float(word)


def _learned_curve(url: str, queue: str) -> ServiceCurve:
    """The curve of the queue's slowest worker: a plan for it holds for the others. Raises BusloadError if none has
    learned one."""
    with Client(url, queue=queue) as client:
        workers = client.queue_info().workers
    curves = [worker.curve for worker in workers if worker.curve is not None]
    if not curves:
        raise PlanInvalid(
            f"none of the {len(workers)} workers of {queue} has learned a service curve: it takes eight batches; "
            "or give --curve"
        )
    return max(curves, key=lambda curve: curve.predict_ms(prompt_tokens=1000, longest=500, new_tokens=4000))


def _answer(question: _Question, options: PlanOptions, console: Console) -> int:
    base, goal = question.base, question.goal
    c = base.curve
    console.print(
        f"Service curve: {c.overhead_ms:.3g} ms + {c.prompt_ms:.3g} a prompt token + {c.step_ms:.3g} a step + "
        f"{c.token_ms:.3g} a token. {goal.per_s:g} requests/s, p99 within {goal.p99_ms:g} ms.",
        soft_wrap=True,
    )
    bar = (TextColumn("simulating"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*bar, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(question.choices))
        found = plans(base, goal, question.choices, lambda done, _: progress.update(task, completed=done))
    console.print(_table(found[: options.top], goal, options.price_per_hour))
    best = found[0]
    if options.out is not None:
        for path in _draw(base, goal, best, found, options.out):
            console.print(f"written to {path}", soft_wrap=True)
    console.print(_verdict(best, goal), soft_wrap=True)
    return FOUND if best.met else NOT_FOUND


def _verdict(best: Plan, goal: Goal) -> str:
    c, s = best.choice, "" if best.workers == 1 else "s"
    if not best.met:
        return (
            f"No plan meets the target with {goal.most_workers} workers at most; the nearest has a p99 of "
            f"{best.outcome.p99_ms:,.0f} ms. Allow more workers, more time, or other sizes."
        )
    return (
        f"Use {best.workers} worker{s} with BUSLOAD_MAX_BATCH_SIZE={c.size} BUSLOAD_MAX_WAIT_MS={_shown(c.wait_ms)} "
        f"BUSLOAD_ORDER={c.order}: p99 {best.outcome.p99_ms:,.0f} ms, {best.outcome.utilisation:.0%} busy."
    )


def _table(found: Sequence[Plan], goal: Goal, price: float) -> Table:
    table = Table(title=f"Plans for {goal.per_s:g} requests/s, the cheapest first")
    for name in ("workers", "batch", "wait ms", "order", "p50 ms", "p99 ms", "fill", "busy", "req/s a worker"):
        table.add_column(name, justify="right")
    if price:
        table.add_column("cost/h", justify="right")
    for plan in found:
        c, o = plan.choice, plan.outcome
        cells = [
            f"{plan.workers:,}", str(c.size), _shown(c.wait_ms), c.order, f"{o.p50_ms:,.0f}",
            f"{o.p99_ms:,.0f}{'' if plan.met else ' (missed)'}", f"{o.fill:.0%}", f"{o.utilisation:.0%}",
            f"{goal.per_s / plan.workers:.3g}",
        ]  # fmt: skip
        table.add_row(*cells, *([f"{plan.workers * price:,.2f}"] if price else []), style=None if plan.met else "dim")
    return table


def _shown(wait: Wait) -> str:
    return wait if isinstance(wait, str) else f"{wait:g}"


def _draw(base: Scenario, goal: Goal, best: Plan, found: Sequence[Plan], folder: Path) -> list[Path]:
    outcomes = list(at_loads(base, best, [_at(base.arrivals, load) for load in LOADS]))
    rates = [load * goal.per_s for load in LOADS]
    c = best.choice
    title = f"{best.workers} workers, batches of {c.size}, wait {_shown(c.wait_ms)}, {c.order}"
    latency = [Line(name, [(rate, getattr(o, field)) for rate, o in zip(rates, outcomes, strict=True)])
               for name, field in (("p50", "p50_ms"), ("mean", "mean_ms"), ("p99", "p99_ms"))]  # fmt: skip
    target = Line("target p99", [(0.0, goal.p99_ms), (rates[-1], goal.p99_ms)])
    fill = [Line("fill", [(rate, o.fill) for rate, o in zip(rates, outcomes, strict=True)]),
            Line("busy", [(rate, o.utilisation) for rate, o in zip(rates, outcomes, strict=True)])]  # fmt: skip
    met = [plan for plan in found if plan.met] or found
    pareto = [Line("plans", [_point(plan, goal) for plan in met], joined=False),
              Line("Pareto front", [_point(plan, goal) for plan in front(met)])]  # fmt: skip
    return [
        draw(Chart(title, "requests/s", "latency, ms", [*latency, target]), folder, "latency"),
        draw(Chart(title, "requests/s", "share", fill), folder, "fill"),
        draw(Chart("Each plan", "requests/s of a worker", "p99, ms", pareto), folder, "pareto"),
    ]


def _point(plan: Plan, goal: Goal) -> tuple[float, float]:
    return goal.per_s / plan.workers, plan.outcome.p99_ms


def _at(arrivals: Arrivals, load: float) -> Arrivals:
    """The same arrivals, so many times as dense."""
    if isinstance(arrivals, Trace):
        return Trace(tuple(at / load for at in arrivals.times_ms))
    return Poisson(arrivals.per_s * load) if isinstance(arrivals, Poisson) else arrivals
