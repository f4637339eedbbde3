"""What a chaos run is told on the command line."""

from __future__ import annotations

import argparse
import random
from dataclasses import dataclass

ROW_MS = 2.0
"""The fake engine's time per token: a batch of the longest rows takes some 60 ms."""

LONGEST_TOKENS = 24
BATCH = 16


@dataclass(frozen=True, slots=True)
class Options:
    """How long, how hard, on what. `only` names the faults to deal; empty means all that fit."""

    seconds: float
    seed: int
    redis: str
    workers: int
    rate: float
    faults_per_s: float
    fsync: str
    lease_s: float
    only: tuple[str, ...]
    old_rev: str
    bound: bool
    most_faults: int
    requests: int
    engine: str
    restarts: int
    partitions: int

    @property
    def bound_s(self) -> float:
        """What a recovery may take: the lease, a tick and the run itself."""
        return self.lease_s + 1.0

    def again(self) -> str:
        """The command that repeats this run's schedule."""
        words = [f"restarts --count {self.restarts}"] if self.restarts else []
        words += [f"--seconds {self.seconds:g} --seed {self.seed} --redis {self.redis} --workers {self.workers}"]
        words += [f"--rate {self.rate:g} --faults-per-s {self.faults_per_s:g} --fsync {self.fsync}"]
        words += [f"--lease-s {self.lease_s:g} --old-rev {self.old_rev} --engine {self.engine}"]
        words += [f"--partitions {self.partitions}"] if self.partitions > 1 else []
        words += [f"--requests {self.requests}"] if self.requests else []
        words += [f"--most-faults {self.most_faults}"] if self.most_faults else []
        words += [f'--only "{",".join(self.only)}"'] if self.only else []
        words += [] if self.bound else ["--no-bound"]
        return "make chaos ARGS='" + " ".join(words) + "'"


def parse(arguments: list[str] | None = None) -> Options:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description="Break everything, lose nothing.")
    add = parser.add_argument
    add("--seconds", type=float, default=60, help="how long faults are injected (default 60)")
    add("--seed", type=int, default=None, help="of the schedule; random, and printed, without it")
    add("--redis", default="7.0", help="6.2, 7.0 or 8.2")
    add("--workers", type=int, default=4)
    add("--rate", type=float, default=None, help="requests a second that producers aim at (250; vllm: 3)")
    add("--faults-per-s", type=float, default=None, help="default 1.5; vllm: 0.05, kills only")
    add("--fsync", choices=("always", "everysec"), default="always", help="everysec: no kill -9 of Redis")
    add("--lease-s", type=float, default=2)
    add("--only", default="", help="deal these faults only, by name, with commas between")
    add("--old-rev", default="HEAD~1", help="the version that is mixed in; - for none")
    add("--no-bound", action="store_true", help="do not judge the time of recovery: for a busy machine")
    add("--most-faults", type=int, default=0, help="stop after so many faults")
    add("--requests", type=int, default=0, help="go on until so many requests were sent, past --seconds")
    add("--engine", choices=("fake", "vllm"), default="fake")
    add("--partitions", type=int, default=1, help="over how many lists the queue is spread")
    add("what", nargs="?", choices=("faults", "restarts"), default="faults", help="all faults, or Redis restarts only")
    add("--count", type=int, default=100, help="how many restarts")
    told = parser.parse_args(arguments)
    seed = random.SystemRandom().randrange(1_000_000) if told.seed is None else told.seed
    return Options(
        seconds=told.seconds,
        seed=seed,
        redis=told.redis,
        workers=told.workers,
        rate=told.rate or (250 if told.engine == "fake" else 3),
        faults_per_s=told.faults_per_s or (1.5 if told.engine == "fake" else 0.05),
        fsync=told.fsync,
        lease_s=told.lease_s,
        only=tuple(name for name in told.only.split(",") if name),
        old_rev=told.old_rev,
        bound=not told.no_bound,
        most_faults=told.most_faults,
        requests=told.requests,
        engine=told.engine,
        restarts=told.count if told.what == "restarts" else 0,
        partitions=told.partitions,
    )
