"""The scenarios of the modes benchmark: which modes serve which requests, in which order, how often."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import modes_driver as driver
from modes_engine import ALL, AUTO, EARLY, LENGTH, ONE, STATIC, TEXTBOOK, Continuous, Mode
from modes_figures import Figures, Served, figures, same_texts
from modes_requests import Hint, Job, Law, arrivals_s, jobs

OPEN_LAW = Law(median=8, sigma=0.8)
BACKLOG_LAW = Law(median=10, sigma=1.0)
LOADS = (0.5, 0.7)
SOME = 1
"""How many repeats the modes get for which no figure must hold."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a scenario's table: a mode (None is continuous batching) and what its worker knows of lengths."""

    label: str
    mode: Mode | None
    hint: Hint = "none"
    repeats: int = 1_000

    @property
    def seats(self) -> int | None:
        """None: the benchmark's batch size."""
        return self.mode.seats if self.mode else None


OPEN = (
    Line("textbook", TEXTBOOK),
    Line("early release", EARLY),
    Line("static", STATIC, repeats=SOME),
    Line("early + auto wait", AUTO, repeats=SOME),
    Line("all remedies, oracle", ALL, "oracle", repeats=SOME),
    Line("all remedies, learned", ALL, "learned", repeats=SOME),
)
SHALLOW = (
    Line("textbook", TEXTBOOK),
    Line("early release", EARLY, repeats=SOME),
    Line("length order, oracle", LENGTH, "oracle"),
    Line("length order, noisy", LENGTH, "noisy"),
    Line("length order, learned", LENGTH, "learned"),
    Line("one by one", ONE, repeats=1),
)
STEADY = SHALLOW[:1] + SHALLOW[2:5]
DEEP = (
    Line("continuous", None, "oracle"),
    Line("all remedies, oracle", ALL, "oracle"),
    Line("all remedies, noisy", ALL, "noisy", repeats=SOME),
    Line("all remedies, learned", ALL, "learned"),
    Line("textbook", TEXTBOOK, repeats=SOME),
)
FOOTGUN = (Line("textbook", TEXTBOOK), Line("early release", EARLY))

PASSENGERS = (
    ("one-sentence summary", "Summarize in one sentence: the town opened a new library by the river.", 24),
    ("500-word article", "Write an article of 500 words about how bread is made.", 680),
)


@dataclass(slots=True)
class Bench:
    """What all scenarios need, and what they have found: the rows of each run, by scenario, line and repeat."""

    url: str
    size: int
    repeats: int
    seed: int
    requests: int
    continuous: Continuous | None
    rows: dict[str, dict[str, dict[int, list[Served]]]] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)
    runs: int = 0

    def keep(self, scenario: str, line: Line, repeat: int, rows: list[Served]) -> None:
        """Remember a run and say that it is over."""
        self.rows.setdefault(scenario, {}).setdefault(line.label, {})[repeat] = rows
        one = figures(rows, seats=line.seats or self.size)
        print(
            f"  {time.monotonic() - self.began:5.0f} s  {scenario:<12} repeat {repeat + 1}/{self.repeats}  "
            f"{line.label:<24} {one.per_s:6.2f} requests/s  mean {one.mean_s:6.2f} s  p99 {one.p99_s:6.2f} s",
            flush=True,
        )

    def run_name(self) -> str:
        """A new one: ids must never come twice."""
        self.runs += 1
        return f"run{self.runs}"

    def backlog(self, line: Line, work: Sequence[Job]) -> list[Served]:
        """All at once."""
        if line.mode is not None:
            return driver.all_at_once(self.url, line.mode, work, run=self.run_name(), hint=line.hint)
        assert self.continuous is not None
        return driver.continuously(self.continuous, work)

    def figures(self, scenario: str) -> dict[str, dict[int, Figures]]:
        """Of each line's runs."""
        seats = {line.label: line.seats or self.size for line in (*OPEN, *SHALLOW, *DEEP)}
        return {
            label: {repeat: figures(rows, seats=seats[label]) for repeat, rows in repeats.items()}
            for label, repeats in self.rows.get(scenario, {}).items()
        }

    def same_texts(self, scenario: str) -> tuple[int, int, int]:
        """Early release beside the textbook, all repeats: see `modes_figures.same_texts`."""
        lines = self.rows.get(scenario, {})
        pairs = [same_texts(rows, lines["textbook"][repeat]) for repeat, rows in lines.get("early release", {}).items()]
        same, together, all_of_them = zip(*pairs, strict=True) if pairs else ((0,), (0,), (0,))
        return sum(same), sum(together), sum(all_of_them)


def warm_up(bench: Bench, modes: Sequence[Mode]) -> None:
    """Each worker's kernels, batch times and table of lengths; what it takes is not measured."""
    for mode in modes:
        driver.teach(bench.url, mode, BACKLOG_LAW, seed=bench.seed)
        for turn in range(2):
            work = jobs(Law(median=8, sigma=0.8), 2 * (mode.seats or bench.size), bench.seed + turn)
            driver.all_at_once(bench.url, mode, work, run=bench.run_name(), hint="learned")
        print(f"  {time.monotonic() - bench.began:5.0f} s  warmed up: {mode.name}", flush=True)
    if bench.continuous is not None:
        driver.continuously(bench.continuous, jobs(OPEN_LAW, 2 * bench.size, bench.seed))


def rotated(lines: Sequence[Line], repeat: int) -> list[Line]:
    """Those with a run in this repeat, another one first each time."""
    mine = [line for line in lines if repeat < line.repeats]
    turn = repeat % len(mine)
    return mine[turn:] + mine[:turn]


def capacity_per_s(bench: Bench) -> float:
    """What the textbook serves of a backlog by the open scenario's law, in full batches."""
    work = jobs(OPEN_LAW, 8 * bench.size, bench.seed)
    rows = driver.all_at_once(bench.url, TEXTBOOK, work, run=bench.run_name())
    return figures(rows, seats=bench.size).per_s


def open_loop(bench: Bench) -> list[float]:
    """Poisson arrivals at shares of the capacity. Returns that, requests/s: measured before each repeat, since a
    machine that others share is slower at times, and 0.7 of what it did before may be all that it does now."""
    found: list[float] = []
    count = -(-bench.requests // bench.size) * bench.size  # whole batches: static waits for them
    for repeat in range(bench.repeats):
        found.append(capacity := capacity_per_s(bench))
        print(f"  capacity in order of arrival: {capacity:.2f} requests/s", flush=True)
        for load in LOADS:
            work = jobs(OPEN_LAW, count, bench.seed + repeat)
            at_s = arrivals_s(count, load * capacity, bench.seed + repeat)
            for line in rotated(OPEN if load == LOADS[-1] else OPEN[:2], repeat):
                assert line.mode is not None
                rows = driver.as_they_come(bench.url, line.mode, work, at_s, run=bench.run_name(), hint=line.hint)
                bench.keep(f"open {load}", line, repeat, rows)
    return found


def backlogs(bench: Bench) -> None:
    """4N and 16N requests at once."""
    for repeat in range(bench.repeats):
        for scenario, lines, batches in (("backlog 4N", SHALLOW, 4), ("backlog 16N", DEEP, 16)):
            work = jobs(BACKLOG_LAW, batches * bench.size, bench.seed + 100 + repeat)
            for line in rotated(lines, repeat):
                bench.keep(scenario, line, repeat, bench.backlog(line, work))


def steady(bench: Bench) -> None:
    """A backlog that stays: 4N wait while another N ride, 12N in all. Where all come at once, most of them see less."""
    for repeat in range(bench.repeats):
        work = jobs(BACKLOG_LAW, 12 * bench.size, bench.seed + 200 + repeat)
        for line in rotated(STEADY, repeat):
            assert line.mode is not None
            rows = driver.kept_waiting(bench.url, line.mode, work, 5 * bench.size, run=bench.run_name(), hint=line.hint)
            bench.keep("steady 4N", line, repeat, rows)


def footgun(bench: Bench) -> None:
    """A short and a long request in one batch."""
    work = [Job(place, prompt, tokens, name, "") for place, (name, prompt, tokens) in enumerate(PASSENGERS)]
    for line in FOOTGUN:
        bench.keep("footgun", line, 0, bench.backlog(line, work))


SCENARIOS: dict[str, Callable[[Bench], object]] = {
    "open": open_loop,
    "backlog": backlogs,
    "footgun": footgun,
    "steady": steady,
}
