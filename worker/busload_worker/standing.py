"""What an engine's death says: of the requests it ran, or of the machine it ran on. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from busload_shared.replies import Claim

LONE_DEATHS_UNTIL_OURS_COUNT_AGAIN = 4
REMEMBERED = 1024
"""Requests whose lone deaths are remembered, the newest: they are few, and each is over soon."""


class Standing:
    """A machine that kills every batch must convict nobody, and a request that kills every engine must be convicted.

    From one death the two look the same. What tells them apart:

    * Two workers. A request that dies alone counts that as evidence once from each worker: the second lone death
      should be another worker's, who would answer an innocent request. Where there is no other worker, or none takes
      the request in four deaths here (each restart of the engine takes longer and leaves it to the others), ours
      count again: else a killer would run for ever.
    * Different requests. `bad_after` fresh batches in a row that died with the engine, with nothing run well between
      them, share no request, so the machine is what they share: the worker is broken. Suspects do not count: one
      killer dies many times on the best of machines, alone and in the halves it rides in.

    An engine that starts is no proof of health here: vLLM runs a batch before it says that it is ready, and machines
    fail under load only.
    """

    def __init__(self, *, bad_after: int) -> None:
        self._bad_after = bad_after
        self._lone_deaths: dict[str, int] = {}
        self.deaths = 0
        """Fresh batches that died with the engine since one ran well."""

    @property
    def broken(self) -> bool:
        """Whether the machine must be looked at before this worker takes another batch."""
        return 0 < self._bad_after <= self.deaths

    def survived(self) -> None:
        """A batch ran to its end."""
        self.deaths = 0

    def died(self, claim: Claim | None) -> None:
        """The engine died with this batch, or while none ran: then no request can have done it."""
        if claim is None or claim.trigger != "retry":
            self.deaths += 1

    def verdict(self) -> str:
        """What is wrong and who must act."""
        return (
            f"this worker stops: its engine died in {self.deaths} fresh batches in a row and ran none well between. "
            "Check the machine (nvidia-smi, dmesg, free memory), then start the worker again. If other workers' "
            "engines die too, the requests or the model are at fault. BUSLOAD_BAD_MACHINE_AFTER sets how many it takes"
        )

    def counts(self, ids: Sequence[str], *, alone: bool) -> bool:
        """Whether the death of a batch of these requests is evidence, should it have been a lone one. `alone` while
        no other worker is on the queue."""
        if len(ids) != 1:
            return True
        deaths = self._lone_deaths.pop(ids[0], 0) + 1
        self._lone_deaths[ids[0]] = deaths  # at the end: the newest
        if len(self._lone_deaths) > REMEMBERED:
            del self._lone_deaths[next(iter(self._lone_deaths))]
        return alone or deaths == 1 or deaths >= LONE_DEATHS_UNTIL_OURS_COUNT_AGAIN
