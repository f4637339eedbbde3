"""A request is in exactly one place: a machine tries every order of everything that can happen to a queue.

The model is kept by payload, which is the same for all copies of an id. Copies: a raw LPUSH may repeat an id, and
what is left in a list of an id that is answered is a shell, which the next claim drops. So an id without a result
is held by one element (by at least one and at most as many as were pushed, when it was repeated), and an id with
a result by none in flight.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import invariant, run_state_machine_as_test
from tests.conftest import get_server, missing
from tests.queue.workers import Workers
from tests.queue.world import NAMES, TWINS, wanted
from tests.redis_servers import WANTED, Servers

from busload_shared.replies import DeadLetter

VERSIONS = list(WANTED) if os.environ.get("BUSLOAD_ALL_REDIS") else ["first"]
SOAK = int(os.environ.get("BUSLOAD_SOAK", "0"))
"""Examples for a long search, new ones each time; without it the same few are tried every time."""


class Machine(Workers):
    """The world, its workers, and what must hold after every step."""

    @invariant()
    def the_queue_is_sound(self) -> None:
        self.look()
        self.every_request_is_in_exactly_one_place()
        self.junk_is_among_the_dead_letters_once()
        self.deaths_are_counted_and_only_a_death_alone_is_evidence()
        self.a_reader_is_told_the_truth()
        self.places.check()

    def every_request_is_in_exactly_one_place(self) -> None:
        copies, running = self.places.copies(), self.places.running()
        assert self.places.results == self.results, "a result never changes, and none appears unseen"
        for name in NAMES:
            held, flying = copies[wanted(name)], running[wanted(name)]
            assert flying <= (name not in self.results), "one copy runs at most, and none of what is answered"
            if self.live(name):
                assert 1 <= held <= self.pushed[name], "nothing is lost, nothing is made"
        for name in filter(self.live, TWINS):
            assert any(element.payload.startswith(wanted(name)[:12]) for element in self.places.elements), "not lost"
        for payload in self.junk:
            assert copies[payload] == (payload not in self.buried), "junk waits, runs or is dead"

    def junk_is_among_the_dead_letters_once(self) -> None:
        letters = [DeadLetter.model_validate_json(raw) for raw in self.places.dead]
        assert sorted(dead.payload_bytes for dead in letters if dead.id is None) == sorted(self.buried)

    def deaths_are_counted_and_only_a_death_alone_is_evidence(self) -> None:
        for element in self.places.elements:
            if element.payload in self.junk or self.pushed[element.id] == 1:
                assert element.attempts == self.deaths[element.payload]
                assert element.lone_deaths == self.lone_deaths[element.payload]

    def a_reader_is_told_the_truth(self) -> None:
        running = self.places.running()
        listed = {element.id for element in [*self.places.waiting, *self.places.retry]}
        for name, found in zip(NAMES, self.run(self.queue.status(NAMES)), strict=True):
            if name in self.results:
                assert found.state == "answered"
            elif running[wanted(name)]:
                assert found.state == "running"
            elif self.live(name) and name in listed - self.reborn:
                assert found.state == "waiting"
            elif name in self.forgotten and not self.places.copies()[wanted(name)]:
                assert found.state == "expired"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_is_in_exactly_one_place(redis_servers: Servers, version: str) -> None:
    chosen = redis_servers.first() if version == "first" else version
    if chosen is None:
        missing("redis-server", " or ".join(WANTED.values()))
    server = get_server(redis_servers, chosen)
    run_state_machine_as_test(
        lambda: Machine(server),
        settings=settings(
            max_examples=SOAK or 80,
            derandomize=not SOAK,
            database=None,
            stateful_step_count=50,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
