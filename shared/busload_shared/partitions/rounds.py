"""One worker's rounds through the partitions of a queue: where it looks next, and what it claims there."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from ..errors import BusloadUnavailable
from ..queue import Queue
from ..replies import NO_CHOICE, Choice, Claim, NotYet
from .absent import ANSWERS_WITHIN_S, Absent, within
from .arrivals_watch import ArrivalsWatch
from .homes import batch_in, partition_of
from .turns import Turns, attended

logger: logging.Logger = logging.getLogger("busload.partitions")

TELL_EVERY_S = 60.0

Chooses = Callable[[Queue], Awaitable[Choice]]


NOBODY_ANSWERS = "no partition of the queue answers: see that Redis runs and can be reached"


async def no_choice(_: Queue) -> Choice:
    """The oldest board."""
    return NO_CHOICE


class Rounds:
    """Claims for one worker. `workers` is how many there are on the queue; `absent` are the partitions that do not
    answer: nobody waits for them."""

    def __init__(self, parts: Sequence[Queue]) -> None:
        # nobody repeats a look at one partition while others wait: what fails once is absent until it answers
        self._parts = [Queue(part.redis, part.keys.queue, patience_s=0.0) for part in parts]
        self._turns = Turns(len(parts), start=random.randrange(len(parts)))
        self._depths = [0] * len(parts)
        self._unsure: dict[int, str] = {}
        self._watch = ArrivalsWatch(self._parts, self._turns.rang)
        self.absent: Absent = Absent(self._ask)
        self.workers: int = 1
        self._tell_at = 0.0

    def hold_clock(self, now_ms: float | None) -> None:
        """For tests, Unix ms."""
        for part in self._parts:
            part.now_ms = now_ms

    async def claim(self, batch: str, *, choose: Chooses, **named: Any) -> Claim | NotYet:
        """The first batch that leaves, else of all partitions looked at what is due next. `depth` of a claim counts
        those of other partitions too, as they were when they were looked at last."""
        looks: list[NotYet] = []
        failure = BusloadUnavailable(NOBODY_ANSWERS)
        for number in self._present():
            if number in self.absent:
                continue
            began = time.monotonic()
            try:
                look = await self._look(number, batch, choose, **named)
            except BusloadUnavailable as error:
                self.absent.add(number)
                failure = error
                if time.monotonic() - began > ANSWERS_WITHIN_S:
                    await self._muster()
                continue
            if isinstance(look, Claim):
                return replace(look, depth=sum(self._depths))
            looks.append(look)
        if not looks:
            raise failure
        return min(looks, key=lambda look: (look.due_in_ms is None, look.due_in_ms or 0.0))

    async def hand_back(self) -> int:
        """Give back what a claim took whose reply was lost. Returns rows put back."""
        rows = 0
        for number, batch in list(self._unsure.items()):
            rows += await self._parts[number].hand_back(batch)
            self._unsure.pop(number, None)
        return rows

    async def wait_for_arrival(self, *, timeout_s: float) -> bool:
        """As `Queue.wait_for_arrival`, in the partitions whose turn it is."""
        numbers, began = self._present(), time.monotonic()
        found = await self._watch.wait(numbers, timeout_s=timeout_s)
        if not found and time.monotonic() - began >= timeout_s:
            for number in numbers:  # the next wait is for others, should not all be attended to at a time
                self._turns.waiting_since(number, began)
        return found

    async def close(self) -> None:
        """Stop waiting and asking."""
        await self._watch.close()
        await self.absent.close()

    def _present(self) -> list[int]:
        here = [number for number in self._turns.order() if number not in self.absent]
        return here[: attended(len(self._parts), self.workers)]

    async def _muster(self) -> None:
        """A server hangs: see at once which other partitions are on it, instead of hanging on each in turn."""

        async def see(number: int) -> None:
            try:
                await within(self._parts[number].peek(1), longest_s=ANSWERS_WITHIN_S / 2)
            except BusloadUnavailable:
                self.absent.add(number)

        await asyncio.gather(*(see(number) for number in self._present()))

    async def _look(
        self, number: int, batch: str, choose: Chooses, *, max_wait_ms: float, **named: Any
    ) -> Claim | NotYet:
        part, asked = self._parts[number], time.monotonic()
        name = self._unsure.setdefault(number, batch_in(batch, number))
        choice = await within(choose(part))
        look = await within(part.claim(name, max_wait_ms=max_wait_ms, choice=choice, **named))
        self._unsure.pop(number, None)
        self._depths[number] = look.depth
        if isinstance(look, Claim):
            self._look_for_strays(number, look)
            self._turns.claimed(number, asked if look.depth == 0 else _left_since(look, choice))
        else:
            due_ms = look.due_in_ms
            self._turns.waiting_since(number, asked if due_ms is None else asked + (due_ms - max_wait_ms) / 1000)
        return look

    def _look_for_strays(self, number: int, claim: Claim) -> None:
        """Tell, now and then, of requests that the ids say are of another partition."""
        ids = [seat.element.id for seat in claim.seats if seat.element.id]
        strays = sum(partition_of(request_id, len(self._parts)) != number for request_id in ids)
        if strays and time.monotonic() >= self._tell_at:
            self._tell_at = time.monotonic() + TELL_EVERY_S
            logger.warning(
                "%d of %d requests of %s belong to other partitions: a producer counts other than %d. They are "
                "answered where they came, and whoever counts like that producer finds them",
                *(strays, len(ids), self._parts[number].keys.queue, len(self._parts)),
            )

    async def _ask(self, number: int) -> None:
        """Whether it answers again. What it may hold under our name goes back at once: its lease is nobody's care.

        The name stays: a claim that hung in a mute connection may come through after this, and is found by the next.
        """
        part, name = self._parts[number], self._unsure.get(number)
        await (part.peek(1) if name is None else part.hand_back(name))


def _left_since(claim: Claim, choice: Choice) -> float | None:
    """Who is left came after the youngest who boarded, unless the batch was picked, or is one of suspects."""
    arrivals = [seat.element.arrival_ms for seat in claim.seats]
    if not arrivals or choice.picks or claim.trigger == "retry":
        return None
    return claim.read_at - max(0.0, claim.now_ms - max(arrivals)) / 1000
