"""How workers share what any of them can do, from one worker to thousands: pure, and simulated."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from busload_worker.chores import (
    AUDIT_EVERY_S,
    BEAT_LONGEST_S,
    LONGEST_S,
    TICK_S,
    audit_every_s,
    beat_every_s,
    idle_look_every_s,
    round_every_s,
    spread,
)
from busload_worker.housekeeping import RECORD_TTL_S, STALE_S

LEASE_S = 15.0


@pytest.mark.parametrize("workers", [0, 1, 2, 8])
def test_a_few_workers_do_all_of_it_twice_a_second_each(workers: int) -> None:
    assert round_every_s(workers, lease_s=LEASE_S) == beat_every_s(workers) == idle_look_every_s(workers) == TICK_S
    assert audit_every_s(workers) == AUDIT_EVERY_S
    assert spread(TICK_S, random.random(), least_s=TICK_S) == TICK_S


@pytest.mark.parametrize("workers", [8, 20, 60])
def test_more_workers_ask_redis_no_more_often_together(workers: int) -> None:
    assert workers / round_every_s(workers, lease_s=LEASE_S) == pytest.approx(16)
    assert workers / audit_every_s(workers) == pytest.approx(0.8)


@pytest.mark.parametrize("workers", [100, 1000, 10_000])
def test_no_worker_leaves_its_part_for_longer_than_it_may(workers: int) -> None:
    assert round_every_s(workers, lease_s=LEASE_S) == pytest.approx(LEASE_S / 4)
    assert round_every_s(workers, lease_s=60) == LONGEST_S
    assert spread(LONGEST_S, 0.0, least_s=TICK_S) == LONGEST_S, "nor by chance"
    assert beat_every_s(workers) <= BEAT_LONGEST_S
    assert 3 * BEAT_LONGEST_S < RECORD_TTL_S, "a few lost heartbeats are no death"
    assert 2 * idle_look_every_s(workers) <= STALE_S, "an idle worker is not taken for one that cannot work"


@pytest.mark.parametrize("lease_s", [0.5, 2.0, 4.0])
def test_with_short_leases_an_outage_in_which_nobody_could_renew_is_always_noticed(lease_s: float) -> None:
    assert round_every_s(1000, lease_s=lease_s) <= max(TICK_S, lease_s / 4)


def rounds(workers: int, *, survivors: int, died_at: float, until: float, seed: int) -> list[float]:
    """When a round was made. All begin at 0; the others die at once, and are counted for 15 s more."""
    chance, made = random.Random(seed), []
    for number in range(workers):
        at = chance.uniform(0, TICK_S)
        while at < until and (number < survivors or at < died_at):
            made.append(at)
            counted = survivors if at > died_at + RECORD_TTL_S else workers
            at += spread(round_every_s(counted, lease_s=LEASE_S), chance.random(), least_s=TICK_S)
    return sorted(made)


def gaps(made: list[float], begin: float, end: float) -> list[float]:
    within = [begin, *(at for at in made if begin < at < end), end]
    return [late - early for early, late in pairwise(within)]


@pytest.mark.parametrize("seed", range(5))
def test_lapsed_leases_are_noticed_within_half_a_second_however_many_workers_there_are(seed: int) -> None:
    for workers in (1, 3, 8, 50, 200, 1000):
        made = rounds(workers, survivors=workers, died_at=60, until=60, seed=seed)
        seen = sorted(gaps(made, 10, 59))
        assert seen[int(0.99 * len(seen))] <= TICK_S + 1e-9, workers
        assert seen[-1] <= 0.75, workers


@pytest.mark.parametrize("seed", range(5))
def test_when_nine_of_ten_die_at_once_the_others_notice_within_seconds(seed: int) -> None:
    for workers, worst_s in ((10, TICK_S), (100, 2.0), (1000, 0.5)):
        made = rounds(workers, survivors=workers // 10, died_at=60, until=120, seed=seed)
        assert max(gaps(made, 60, 76)) <= worst_s + 0.5, workers
    last = rounds(1000, survivors=1, died_at=60, until=120, seed=seed)
    assert max(gaps(last, 60, 80)) <= LEASE_S / 4 + 1e-9, "a single one of a thousand"
    assert max(gaps(last, 81, 119)) <= TICK_S + 1e-9, "once the records of the others are gone"
