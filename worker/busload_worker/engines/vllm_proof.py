"""Proves from vLLM's own clock that a batch ran as one unit: admitted in one step, never put back, after
the last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from busload_shared.result import Proof


class Stamps(Protocol):
    """The part of vLLM's RequestStateStats that is looked at; times in seconds, 0 for not yet."""

    scheduled_ts: float
    last_token_ts: float
    num_preemptions: int


class Witness:
    """Watches the sequences of batch after batch."""

    def __init__(self) -> None:
        self._stamps: dict[int, Sequence[Stamps]] = {}
        self._previous_end: float | None = None

    def board(self, stamps: Mapping[int, Sequence[Stamps]]) -> None:
        """A unit begins: for each row its sequences' stamps, which vLLM goes on writing."""
        self._stamps = dict(stamps)

    def row(self, index: int) -> Proof:
        """What can be said of a row at the time it ends."""
        return self._proof(self._stamps[index])

    def close(self) -> Proof:
        """The unit is over: the worst over its rows."""
        proof = self._proof([stamp for row in self._stamps.values() for stamp in row])
        ends = [stamp.last_token_ts for row in self._stamps.values() for stamp in row if stamp.last_token_ts]
        if ends:
            self._previous_end = max(ends)
        return proof

    def forget(self) -> None:
        """What ran until now was no batch of a user's."""
        self._previous_end = None

    def _proof(self, own: Iterable[Stamps]) -> Proof:
        times = [stamp.scheduled_ts for row in self._stamps.values() for stamp in row if stamp.scheduled_ts]
        first = min(times, default=0.0)
        gap_ms = None
        if times and self._previous_end is not None:
            gap_ms = (first - self._previous_end) * 1000
        return Proof(
            spread_ms=(max(times, default=0.0) - first) * 1000,
            preemptions=max((stamp.num_preemptions for stamp in own), default=0),
            gap_ms=gap_ms,
        )


def worst(proofs: Sequence[Proof]) -> Proof | None:
    """One proof for the units of a batch, None when none ran."""
    if not proofs:
        return None
    gaps = [proof.gap_ms for proof in proofs if proof.gap_ms is not None]
    return Proof(
        spread_ms=max(proof.spread_ms for proof in proofs),
        preemptions=max(proof.preemptions for proof in proofs),
        gap_ms=min(gaps, default=None),
    )
