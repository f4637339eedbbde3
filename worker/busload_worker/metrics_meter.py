"""What a worker counts for its metrics: plain numbers, a few operations for each batch. No I/O, and no library."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from operator import itemgetter
from typing import Literal

from busload_shared.metrics.histogram import SECONDS, SHARES, TOKENS, Histogram
from busload_shared.replies import Claim, Delivery

from .engines.protocol import BatchDone

EngineState = Literal["busy", "idle", "down"]
"""A batch runs; none does, though one could; the engine starts, or is gone."""

_status_of = itemgetter(Delivery._fields.index("status"))
_CODE = b'"error":{"code":"'
"""As Result's serializer writes it. Nothing before it in a result can hold these bytes: quotes in an id are escaped."""


class Meter:
    """Written by the worker's event loop only. A scrape reads it from another thread: each number is whole by itself,
    and two of them may be a batch apart."""

    def __init__(self) -> None:
        self.batches: Counter[str] = Counter()
        self.rows = 0
        self.fill = Histogram(SHARES)
        self.wait_s = Histogram(SECONDS)
        self.run_s = Histogram(SECONDS)
        self.held_s = Histogram(SECONDS)
        self.weight = Histogram(TOKENS)
        self.tokens: Counter[str] = Counter()
        self.deliver_s = Histogram(SECONDS)
        self.results: Counter[str] = Counter()
        self.rejects: Counter[str] = Counter()
        self.results_refused = 0
        self.dead_letters = 0
        self.renewals = 0
        self.reclaims = 0
        self.suspects = 0
        self.handed_back = 0
        self.engine_deaths = 0
        self.decisions: Counter[str] = Counter()
        self._engine: tuple[EngineState, float, dict[EngineState, float]] = ("down", time.monotonic(), {})

    def claimed(self, claim: Claim, *, most: int) -> None:
        """A batch left with room for `most` rows."""
        self.batches[claim.trigger] += 1
        self.rows += len(claim.seats)
        self.fill.add(len(claim.seats) / most)
        at_ms = claim.claimed_ms
        waits = [(at_ms - seat.element.arrival_ms) / 1000 for seat in claim.seats]
        if waits and (min(waits) < 0 or max(waits) * 1000 >= at_ms):  # a header that was forged, or none
            waits = [wait_s if 0 <= wait_s * 1000 < at_ms else 0.0 for wait_s in waits]
        self.wait_s.add_all(waits)

    def ran(self, done: BatchDone, *, weight: int) -> None:
        """A batch, or a part of one that was too much for the memory, ran to its end."""
        self.run_s.add(done.ran_ms / 1000)
        self.weight.add(weight)
        self.tokens["prompt"] += done.prompt_tokens
        self.tokens["completion"] += done.completion_tokens

    def delivered(self, rows: Sequence[Delivery], written: Sequence[bool]) -> None:
        """Redis took or refused these answers."""
        if not all(written):
            rows = [row for row, taken in zip(rows, written, strict=True) if taken]
            self.results_refused += len(written) - len(rows)
        statuses = Counter(map(_status_of, rows))
        self.results.update(statuses)
        if statuses["succeeded"] < len(rows):
            self.rejects.update(code_in(row.result) for row in rows if row.status != "succeeded")
            self.dead_letters += sum(1 for row in rows if row.letter)

    def expired(self, requests: int) -> None:
        """So many waiting requests were answered as expired."""
        self.results["expired"] += requests
        self.rejects["expired"] += requests

    def engine(self, state: EngineState) -> None:
        """The engine is now in this state."""
        was, since, spent = self._engine
        now = time.monotonic()
        self._engine = (state, now, spent | {was: spent.get(was, 0.0) + now - since})  # one store: read from a thread

    def arrived(self) -> None:
        """The batch is over, one way or another."""
        if self._engine[0] == "busy":
            self.engine("idle")

    def died(self) -> None:
        """The engine is gone."""
        self.engine_deaths += 1
        self.engine("down")

    def engine_seconds(self) -> dict[EngineState, float]:
        """Seconds in each state until now."""
        state, since, spent = self._engine
        return {**spent, state: spent.get(state, 0.0) + time.monotonic() - since}


def code_in(result: bytes) -> str:
    """The error code of a Result's JSON; empty where there is none."""
    _, found, rest = result.partition(_CODE)
    return rest.partition(b'"')[0].decode("ascii", "replace") if found else ""
