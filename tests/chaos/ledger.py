"""What was sent, what was heard, and which fault happened when. Times are of the monotonic clock."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field


@dataclass(slots=True)
class Asked:
    """One request. `heard` is the fingerprint its producer saw; `poison` the fault it was made with. From its
    result: `attempts`, and `claimed_at` of the batch that answered it."""

    id: str
    sent_at: float
    poison: str | None = None
    heard_at: float | None = None
    heard: str | None = None
    attempts: int = 0
    claimed_at: float = 0.0


@dataclass(slots=True)
class Injected:
    """One fault. `kills` when it ends batches, `everybody` when nobody could be served while it lasted; `hit` are the
    requests that its victim had in its hands, where that is known."""

    kind: str
    began_at: float
    kills: bool
    everybody: bool
    ended_at: float | None = None
    note: str = ""
    hit: frozenset[str] = frozenset()

    @property
    def over_at(self) -> float:
        return self.began_at if self.ended_at is None else self.ended_at


@dataclass(slots=True)
class Ledger:
    """All of a run. `odd` is what should never have happened, in words; `fresh` are those heard of that nobody has
    looked at since."""

    asked: dict[str, Asked] = field(default_factory=dict)
    faults: list[Injected] = field(default_factory=list)
    odd: list[str] = field(default_factory=list)
    fresh: list[str] = field(default_factory=list)
    open: int = 0

    def sent(self, request_id: str, at: float, *, poison: str | None = None) -> None:
        """A producer is about to give this to Redis for the first time."""
        if request_id in self.asked:
            self.odd.append(f"{request_id}: sent by two producers; the chaos suite is wrong")
        self.asked[request_id] = Asked(request_id, at, poison)
        self.open += 1

    def heard(self, request_id: str, at: float, fingerprint: str) -> None:
        """A producer has the answer."""
        asked = self.asked[request_id]
        if asked.heard is not None:
            self.odd.append(f"{request_id}: its producer heard two answers")
        asked.heard_at, asked.heard = at, fingerprint
        self.fresh.append(request_id)
        self.open -= 1

    def outstanding(self, moment: float, *, oldest_s: float = 120.0) -> list[Asked]:
        """Those on their way at that moment. Call it when the run is over; the ledger must be in order of sending."""
        if not self._in_order:
            self._in_order = sorted(self.asked.values(), key=lambda asked: asked.sent_at)
        first = bisect_left(self._in_order, moment - oldest_s, key=lambda asked: asked.sent_at)
        last = bisect_left(self._in_order, moment, key=lambda asked: asked.sent_at)
        return [asked for asked in self._in_order[first:last] if asked.heard_at is None or asked.heard_at > moment]

    _in_order: list[Asked] = field(default_factory=list)
