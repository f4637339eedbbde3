"""How soon after a fault those it met were answered.

For each request that was outstanding when the fault began: from the fault's end until its producer heard the answer,
less the time in which another fault held everybody up. One that died counts for the faults whose victims had it in
their hands, each until the next of them; where that is not known, for the last fault that may have killed it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.chaos.ledger import Asked, Injected, Ledger

WEIGHS_S = 60.0
"""Faults further apart than this have nothing to do with each other."""


@dataclass(slots=True)
class Met:
    """One fault and the requests it met. `slowest_s` is None when it met nobody."""

    fault: Injected
    requests: list[Asked] = field(default_factory=list)
    near: list[Injected] = field(default_factory=list)
    slowest_s: float | None = None
    slowest: Asked | None = None

    def told(self) -> str:
        """The slowest one's story, its times counted from the fault's beginning."""
        one = self.slowest
        if one is None or one.heard_at is None or self.slowest_s is None:
            return ""
        sent, claimed, heard = (at - self.fault.began_at for at in (one.sent_at, one.claimed_at, one.heard_at))
        return (
            f"{self.fault.kind} (over after {self.fault.over_at - self.fault.began_at:.2f} s): {self.slowest_s:.2f} s, "
            f"{one.id} sent at {sent:.2f}, claimed last at {claimed:.2f}, heard at {heard:.2f}, runs {one.attempts}; "
            f"meanwhile {', '.join(map(self._when, self.meanwhile()))}"
        )

    def meanwhile(self) -> list[Injected]:
        """The other faults under way while the slowest one was on its way."""
        one = self.slowest
        if one is None or one.heard_at is None:
            return []
        return [near for near in self.near if near.began_at < one.heard_at and near.over_at > one.sent_at]

    def _when(self, other: Injected) -> str:
        begin, end = (at - self.fault.began_at for at in (other.began_at, other.over_at))
        return f"{other.kind} {begin:.2f} to {end:.2f}"


def recoveries(ledger: Ledger) -> list[Met]:
    """One for each fault, in the order of their beginnings."""
    faults = sorted(ledger.faults, key=lambda fault: fault.began_at)
    return [_met(fault, faults, ledger) for fault in faults]


def _met(fault: Injected, faults: list[Injected], ledger: Ledger) -> Met:
    near = [
        other
        for other in faults
        if other is not fault
        and other.over_at > fault.began_at - WEIGHS_S
        and other.began_at < fault.over_at + WEIGHS_S
    ]
    met = Met(fault, [asked for asked in ledger.outstanding(fault.began_at) if asked.poison is None], near)
    for asked in met.requests:
        if asked.heard_at is None or _another_s(asked, fault, near):
            continue
        until = _until(asked, fault, near)
        late_s = max(0.0, until - fault.over_at - _held_up(near, fault.over_at, until))
        if met.slowest_s is None or late_s > met.slowest_s:
            met.slowest_s, met.slowest = late_s, asked
    return met


def _another_s(asked: Asked, fault: Injected, near: list[Injected]) -> bool:
    """Whether a request that died was killed by another fault than this one.

    It is, when others had it in their hands and this one had not; when nobody knows, the last that may have is."""
    if asked.attempts < 2 or asked.id in fault.hit:
        return False
    if any(asked.id in other.hit for other in near):
        return True
    return any(other.kills and other.over_at > fault.over_at and other.began_at < asked.claimed_at for other in near)


def _until(asked: Asked, fault: Injected, near: list[Injected]) -> float:
    """When the request had recovered: when it was heard of, or had been taken up again and was hit anew."""
    again = [other.began_at for other in near if asked.id in other.hit and other.began_at > fault.began_at]
    return min([asked.heard_at or 0.0, *again])


def _held_up(near: list[Injected], begin: float, end: float) -> float:
    """The time between two moments in which some fault held everybody up."""
    spans = sorted((max(one.began_at, begin), min(one.over_at, end)) for one in near if one.everybody)
    held, until = 0.0, begin
    for start, stop in spans:
        start = max(start, until)
        if stop > start:
            held, until = held + stop - start, stop
    return held


def quantile(values: list[float], share: float) -> float:
    """The value below which this share of them lies; the largest for a share of 1."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
