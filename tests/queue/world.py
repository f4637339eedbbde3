"""A world around one queue: what producers, operators and time do to it, and what each step must answer.

`workers.py` adds the workers, and `test_invariant.py` what must hold after every step.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from tests.conftest import QUEUE, START_MS
from tests.queue.places import Places
from tests.queue.steps import body, result
from tests.redis_servers import Server

from busload_shared.connection import open_redis
from busload_shared.queue import Queue
from busload_shared.replies import Claim, Delivery, RequestStatus
from busload_shared.terms import Terms

T = TypeVar("T")
NAMES = [str(i) for i in range(8)]
TWINS = ["t0", "t1"]
"""Ids that are pushed again and again with other bytes: all of them run, and the first result stays."""

JUNK = [b"junk %d", b'{"id":%d}', b"=2 junk %d", b"@1 %d", b"\xff%d"]
TTL_S = 3600.0
name_lists = st.lists(st.sampled_from(NAMES), min_size=1, max_size=5)


PRIORITIES = {"5": 1, "6": -2, "7": 100}
DEADLINES = {"1", "6"}


def wanted(name: str, **more: str) -> bytes:
    """The JSON of a request, with the priority and the time to live that its id has in this world."""
    terms: dict[str, float] = {"priority": PRIORITIES[name]} if name in PRIORITIES else {}
    if name in DEADLINES:
        terms["ttl_s"] = 0.2
    return body(name, **terms, **more)


def terms(name: str) -> Terms:
    """What the client tells the queue of it."""
    return Terms(PRIORITIES.get(name, 0), ttl_ms=200 if name in DEADLINES else None)


class World(RuleBasedStateMachine):
    """Clients, producers, workers that die, operators and time, on one queue."""

    def __init__(self, server: Server) -> None:
        super().__init__()
        server.reset()
        self.server, self.runner = server, asyncio.Runner()
        self.client = server.client()
        self.redis = open_redis(server.url)
        self.queue = Queue(self.redis, QUEUE, patience_s=0)
        self.queue.now_ms = START_MS
        self.pushed: Counter[str] = Counter()  # elements ever put on the list for an id
        self.results: dict[str, bytes] = {}
        self.forgotten: set[str] = set()  # answered, and the result has expired
        self.reborn: set[str] = set()  # accepted again after that
        self.marked: set[str] = set()  # cancels that were marked
        self.junk: set[bytes] = set()
        self.buried: set[bytes] = set()
        self.deaths: Counter[bytes] = Counter()
        self.lone_deaths: Counter[bytes] = Counter()
        self.claims: dict[str, Claim] = {}  # as their workers hold them, lost ones too
        self.written: dict[tuple[str, int], Delivery] = {}
        self.repaired = False
        self.count = 0
        self.look()

    def teardown(self) -> None:
        self.client.close()
        self.run(self.redis.aclose())
        self.runner.close()

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(call)

    def look(self) -> Places:
        """Read where everything is."""
        assert self.queue.now_ms is not None
        self.places = Places.read(self.client, self.queue.keys, NAMES + TWINS, self.queue.now_ms)
        return self.places

    def live(self, name: str) -> bool:
        """Whether this id was accepted and not answered yet."""
        return self.pushed[name] > 0 and name not in self.results and name not in self.forgotten

    # --- what producers do -------------------------------------------------------------------------

    @initialize(names=st.permutations(NAMES))
    def begin(self, names: list[str]) -> None:
        """Enough for full batches."""
        self.submit(names[:5], limit=100)
        self.push([*names[5:], *TWINS, *TWINS, b"junk %d"])

    @rule(names=name_lists, limit=st.sampled_from([1, 3, 6, 10, 100]))
    def submit(self, names: list[str], limit: int) -> None:
        stamped = {e.id for e in self.places.elements}
        depth = len(self.places.waiting)
        pairs, special = [(name, wanted(name)) for name in names], {at: terms(name) for at, name in enumerate(names)}
        sent = self.run(self.queue.submit(pairs, limit=limit, terms=special))
        for name, state in zip(names, sent.states, strict=True):
            if name in self.results:
                assert state == "answered"
            elif self.live(name) and name in stamped - self.reborn:
                assert state in ("waiting", "running")
            if state == "full":
                assert depth >= limit
            if state == "queued":
                assert depth < limit
                depth += 1
                self.accept(name)
                stamped.add(name)

    def accept(self, name: str) -> None:
        self.pushed[name] += 1  # only a shell, when it is answered already
        if name in self.forgotten:
            self.forgotten.remove(name)
            self.reborn.add(name)

    @rule(what=st.lists(st.sampled_from([*NAMES, *TWINS, *JUNK]), min_size=1, max_size=5))
    def push(self, what: list[str | bytes]) -> None:
        for each in what:
            self.count += 1
            if isinstance(each, bytes):
                element = each % self.count
                self.junk.add(element)
            else:
                element = wanted(each, prompt=str(self.count)) if each in TWINS else wanted(each)
                self.accept(each)
            self.client.lpush(self.queue.keys.queue, element)

    @rule(name=st.sampled_from(NAMES + TWINS))
    def cancel(self, name: str) -> None:
        record = result(name, "cancelled", attempts=0)
        said = self.run(self.queue.cancel(name, result=record, ttl_s=TTL_S))
        assert (said == "answered") == (name in self.results)
        if said == "cancelled":
            self.results[name] = record
            self.forgotten.discard(name)
        elif said in ("running", "unknown"):
            self.marked.add(name)

    @rule()
    def expire(self) -> None:
        """As every worker's tick does. What runs is its worker's to end; what is gone stays gone."""
        overdue = self.run(self.queue.overdue())
        assert set(overdue) <= DEADLINES
        records = {name: result(name, "expired", attempts=0) for name in overdue}
        before = [(name, found.state) for name, found in zip(overdue, self.states(overdue), strict=True)]
        answered = self.run(self.queue.expire(records, ttl_s=TTL_S)) if records else 0
        waited = [name for name, state in before if state == "waiting"]
        assert answered == len(waited)
        assert not self.run(self.queue.overdue()), "nobody is told twice"
        for name in waited:
            self.results[name] = records[name]
            self.forgotten.discard(name)

    def states(self, names: list[str]) -> list[RequestStatus]:
        return self.run(self.queue.status(names)) if names else []

    # --- what operators and time do ----------------------------------------------------------------

    @rule(act=st.sampled_from(["wait", "stamp", "flush", "purge", "audit", "lose leases", "lose batches"]))
    def operate(self, act: str) -> None:
        if act == "wait":
            self.queue.now_ms += 50
        elif act == "stamp":
            assert self.run(self.queue.stamp())
        elif act == "flush":
            self.client.script_flush()
        elif act == "purge":
            assert self.run(self.queue.purge_dead()) == len(self.places.dead)
            self.junk -= self.buried
            self.buried.clear()
        else:
            self.audit(act)

    def audit(self, slip: str) -> None:
        """After an operator's slip, or none. Without batches it is not known any more which came from where."""
        broken = 0
        if slip != "audit":
            self.repaired |= slip == "lose batches"
            self.client.delete(self.queue.keys.leases if slip == "lose leases" else self.queue.keys.batches)
            broken = len(self.places.leases)
        assert self.run(self.queue.audit(grace_ms=30)) == broken

    @precondition(lambda self: self.places.dead)
    @rule(data=st.data())
    def redrive(self, data: st.DataObject) -> None:
        dead = data.draw(st.sampled_from(self.run(self.queue.dead_letters())))
        before = len(self.places.waiting)
        assert self.run(self.queue.redrive(dead))
        put_back = len(self.look().waiting) > before
        if dead.model_dump_json().encode() not in self.places.dead:
            assert not self.run(self.queue.redrive(dead)), "a letter goes once"
        if dead.id is None:
            assert put_back
            self.buried.remove(dead.payload_bytes)
            self.deaths[dead.payload_bytes] = self.lone_deaths[dead.payload_bytes] = 0
        elif put_back:
            self.results.pop(dead.id, None)
            self.accept(dead.id)
        elif dead.id in NAMES:
            assert self.places.copies()[wanted(dead.id)], "a letter goes without a copy only when its request is there"

    @precondition(lambda self: self.results)
    @rule(data=st.data())
    def result_expires(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.results)))
        self.client.delete(self.queue.keys.result(name))
        del self.results[name]
        self.forgotten.add(name)
