"""The chaos suite's own arithmetic: what it counts for and against us."""

from __future__ import annotations

import random
from itertools import islice

from tests.chaos.ledger import Injected, Ledger
from tests.chaos.recovery import recoveries
from tests.chaos.schedule import ALL, deal


def told(ledger: Ledger, request_id: str, *, sent: float, heard: float, attempts: int = 1, claimed: float = 0) -> None:
    ledger.sent(request_id, sent)
    ledger.heard(request_id, heard, "…")
    ledger.asked[request_id].attempts, ledger.asked[request_id].claimed_at = attempts, claimed


def fault(kind: str, began: float, over: float, *, hit: str = "", everybody: bool = False) -> Injected:
    return Injected(
        kind, began, kills=bool(hit), everybody=everybody, ended_at=over, hit=frozenset(filter(None, [hit]))
    )


def slowest(ledger: Ledger) -> dict[str, float | None]:
    return {met.fault.kind: met.slowest_s for met in recoveries(ledger)}


def test_a_recovery_is_counted_from_the_end_of_the_fault_and_for_those_it_met() -> None:
    ledger = Ledger(faults=[fault("pause", 10, 11)])
    told(ledger, "met", sent=9.9, heard=11.5)
    told(ledger, "before", sent=9, heard=9.5)
    told(ledger, "after", sent=10.5, heard=19)
    assert slowest(ledger) == {"pause": 0.5}


def test_the_time_in_which_another_fault_held_everybody_up_is_not_counted() -> None:
    ledger = Ledger(faults=[fault("cut", 10, 10), fault("restart", 10.5, 12, everybody=True), fault("cut too", 11, 11)])
    told(ledger, "met", sent=9.9, heard=12.25)
    assert slowest(ledger) == {"cut": 0.75, "restart": 0.25, "cut too": 0.25}


def test_a_death_counts_for_the_fault_that_hit_it_and_not_for_a_bystander() -> None:
    ledger = Ledger(faults=[fault("kill", 10, 10, hit="met"), fault("cut", 10.5, 10.5)])
    told(ledger, "met", sent=9.9, heard=12.5, attempts=2, claimed=12)
    assert slowest(ledger) == {"kill": 2.5, "cut": None}


def test_who_was_hit_twice_counts_for_each_from_there_on() -> None:
    ledger = Ledger(faults=[fault("kill", 10, 10, hit="met"), fault("kill again", 12, 12, hit="met")])
    told(ledger, "met", sent=9.9, heard=15, attempts=3, claimed=14)
    assert slowest(ledger) == {"kill": 2, "kill again": 3}


def test_each_deck_holds_every_fault_and_the_seed_repeats_the_order() -> None:
    cards = sum(fault.weight for fault in ALL)
    first, again = (list(islice(deal(ALL, random.Random(5)), 2 * cards)) for _ in range(2))
    assert [one.name for one in first] == [one.name for one in again]
    for deck in (first[:cards], first[cards:]):
        assert {one.name for one in deck} == {one.name for one in ALL}
