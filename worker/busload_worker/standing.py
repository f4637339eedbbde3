"""What an engine's death says: of the requests it ran, or of the machine it ran on. Pure."""

from __future__ import annotations

import random
from collections.abc import Mapping

from busload_shared.replies import Claim
from busload_shared.result import Status

LONE_DEATHS_UNTIL_OURS_COUNT_AGAIN = 4
DEATHS_FOR_A_BATCH = 4
"""So many deaths in a row weigh as much as one batch whose innocence is known."""

REMEMBERED = 1024
"""Requests whose lone deaths are remembered, and rows of dead batches: they are few, and each is over soon."""

ASKED_AT_ONCE = 64


class Standing:
    """A machine that kills every batch must convict nobody, and a request that kills every engine must be convicted.

    From one death the two look the same. What tells them apart:

    * What becomes of a dead batch's requests. If all of them are answered well by other workers, none of them was a
      killer. `bad_after` such batches without a common request, with nothing run well here since, and the worker is
      broken. A stream of killers never comes to that: the killer of a batch is never answered well.
    * Whether anything lives. Halving a batch with a killer leaves halves that live, and fresh batches take turns with
      them. `DEATHS_FOR_A_BATCH` times `bad_after` deaths in a row with nothing run well between, and the worker is
      broken, though there be no other worker to answer the requests. A suspect's second lone death is left out: it
      may be all that is left to run.
    * Two workers. A request's lone death is evidence once from each worker: the second should be another's, who would
      answer an innocent request. A worker that is alone may tell twice, as long as fewer than `bad_after` requests
      died alone here since anything ran well. After four deaths ours count again in any case: else a killer that
      nobody else takes would run for ever. Each restart of the engine takes longer, and leaves the request to others.

    An engine that starts is no proof of health: vLLM runs a batch before it says that it is ready, and machines fail
    under load only.
    """

    def __init__(self, *, bad_after: int) -> None:
        self._bad_after = bad_after
        self._lone_deaths: dict[str, int] = {}
        self._lone: set[str] = set()
        self._open: list[frozenset[str]] = []
        self._ended: dict[str, Status] = {}
        self._innocent: list[frozenset[str]] = []
        self._absent = 0
        self._in_a_row = 0

    @property
    def broken(self) -> bool:
        """Whether the machine must be looked at before this worker takes another batch."""
        innocent = len(self._innocent) + self._absent
        return self._bad_after > 0 and (
            innocent >= self._bad_after or self._in_a_row >= DEATHS_FOR_A_BATCH * self._bad_after
        )

    def survived(self) -> None:
        """A batch ran to its end."""
        self._lone.clear()
        self._open.clear()
        self._ended.clear()
        self._innocent.clear()
        self._absent = 0
        self._in_a_row = 0

    def died(self, claim: Claim | None) -> None:
        """The engine died with this batch, or while none ran: then no request can have done it."""
        if claim is None:
            self._absent += 1
            return
        ids = frozenset(seat.element.id for seat in claim.seats if seat.element.id)
        lone = len(claim.seats) == 1
        self._in_a_row += not (lone and claim.seats[0].element.lone_deaths)
        if lone:
            self._lone |= ids
        known = [*self._open, *self._innocent]
        room = sum(map(len, known)) < REMEMBERED
        if ids and room and not any(ids & other for other in known):
            self._open.append(ids)

    def asked(self) -> list[str]:
        """Requests of dead batches of which it is not known yet what became of them, some at a time: results are
        large."""
        names = [name for ids in self._open for name in ids if name not in self._ended]
        return random.sample(names, min(ASKED_AT_ONCE, len(names)))

    def became(self, statuses: Mapping[str, Status]) -> None:
        """How those of them ended that have a result by now."""
        self._ended |= statuses
        for ids in list(self._open):
            ended = [self._ended[name] for name in ids if name in self._ended]
            if any(status != "succeeded" for status in ended):
                self._open.remove(ids)  # that one may have been the killer
            elif len(ended) == len(ids):
                self._open.remove(ids)
                self._innocent.append(ids)

    def counts(self, claim: Claim, *, alone: bool) -> bool:
        """Whether the death of this batch is evidence, if it was a lone one. `alone` while no other worker is on the
        queue."""
        if len(claim.seats) != 1:
            return True
        name = claim.seats[0].element.id
        deaths = self._lone_deaths.pop(name, 0) + 1
        self._lone_deaths[name] = deaths  # at the end: the newest
        if len(self._lone_deaths) > REMEMBERED:
            del self._lone_deaths[next(iter(self._lone_deaths))]
        trusted = alone and (not self._bad_after or len(self._lone) < self._bad_after)
        return deaths == 1 or trusted or deaths >= LONE_DEATHS_UNTIL_OURS_COUNT_AGAIN

    def verdict(self) -> str:
        """What is wrong and who must act."""
        deaths = len(self._innocent) + self._absent
        seen = f"its engine died in {deaths} batches that other workers answered, or with none"
        if not deaths:
            seen = f"its engine died {self._in_a_row} times in a row"
        return (
            f"this worker stops: {seen}, and nothing ran well here between. Check the machine (nvidia-smi, dmesg, free "
            "memory), then start the worker again. If other workers' engines die too, the requests or the model are "
            "at fault. BUSLOAD_BAD_MACHINE_AFTER sets how many it takes"
        )
