"""Chooses, from the backlog as it stands, the rows that ride together: of like length, within the batch's weight."""

from __future__ import annotations

from typing import NamedTuple

from busload_shared.element import Element
from busload_shared.errors import RequestInvalid
from busload_shared.partitions.partitioned import PartitionedQueue
from busload_shared.queue import Queue
from busload_shared.replies import NO_CHOICE, Choice
from busload_shared.request import Request, parse_request

from .lengths import Lengths, predict, prompt_tokens, weight
from .picking import Waiter, pick
from .settings import Settings
from .vitals import Vitals
from .weight import BatchLimit

WINDOWS = 8
"""A choice is made among so many batches' worth of the oldest."""


class _Seen(NamedTuple):
    """A waiting element: its place from the old end, its header, what it asks for (None where it breaks the contract:
    its batch answers it without a run)."""

    place: int
    head: bytes
    arrival_ms: float
    request: Request | None


class Chooser:
    """Makes the choices of one worker. What it has parsed it knows for as long as it stays in view."""

    def __init__(self, queue: Queue, settings: Settings, vitals: Vitals, lengths: Lengths) -> None:
        self._queue = queue
        self._settings = settings
        self._vitals = vitals
        self._lengths = lengths
        self._in_parts = len(queue.parts) > 1
        self._known: dict[str, dict[bytes, _Seen]] = {}

    @property
    def most_tokens(self) -> int | None:
        """The weight of a full batch, in tokens; None where nothing bounds it."""
        engine = self._vitals.engine
        return self._settings.max_batch_tokens or (engine.kv_tokens if engine else None)

    @property
    def looked_ms(self) -> float:
        """When the queue was looked at last, Unix ms on the Redis clock; 0 before."""
        return self._vitals.looked_ms or 0.0

    async def choose(self, *, size: int, now_ms: float, part: Queue | None = None) -> Choice:
        """The choice for a claim of `size` rows at most; none where the oldest are as good as any. `now_ms` is that of
        the last look. Of a queue in partitions it is made for one `part`, by whoever knows whose turn it is. Raises
        BusloadUnavailable."""
        if self._in_parts and part is None:
            return NO_CHOICE  # see choose_in_parts
        by_length = self._settings.order == "length"
        if not by_length and not self._may_be_heavy(size):
            return NO_CHOICE
        queue = part or self._queue
        seen = self._look(queue.keys.queue, await queue.peek(WINDOWS * size if by_length else size))
        chosen = pick(
            [self._waiter(one) for one in seen],
            now_ms=now_ms,
            size=size,
            max_tokens=self.most_tokens,
            curve=self._vitals.fit.curve() if by_length else None,
            mean_batch_ms=self._vitals.mean_batch_ms,
        )
        if len(chosen) == len(seen):
            return NO_CHOICE
        return Choice(tuple((seen[at].place, seen[at].head) for at in chosen), heavy=len(chosen) < size)

    def _may_be_heavy(self, size: int) -> bool:
        most, engine = self.most_tokens, self._vitals.engine
        longest = engine.max_model_len if engine else None
        return most is not None and size > 1 and (longest is None or size * longest > most)

    def _look(self, name: str, elements: list[bytes]) -> list[_Seen]:
        """Those that were stamped. A raw one among the oldest boards with what is claimed unchosen."""
        seen, known_before = [], self._known.get(name, {})
        for place, raw in enumerate(elements, 1):
            element = Element.parse(raw, latest_ms=self.looked_ms)
            head = raw[: len(raw) - len(element.payload)]
            if head:
                known = known_before.get(head)
                seen.append(known._replace(place=place) if known else _Seen(place, head, *_read(element)))
        self._known[name] = {one.head: one for one in seen}
        return seen

    def _waiter(self, one: _Seen) -> Waiter:
        request = one.request
        if request is None:
            return Waiter(one.arrival_ms, 0, 1.0, 1)
        length, spread = predict(request, self._lengths)
        return Waiter(one.arrival_ms, prompt_tokens(request), length, weight(request), spread)


def choose_in_parts(queue: Queue, chooser: Chooser, limit: BatchLimit) -> None:
    """Let a queue of several partitions have its rows chosen once it knows whose turn it is."""

    async def choose(part: Queue) -> Choice:
        return await chooser.choose(size=limit.now, now_ms=chooser.looked_ms, part=part)

    if isinstance(queue, PartitionedQueue):
        queue.choose = choose


def _read(element: Element) -> tuple[float, Request | None]:
    try:
        return element.arrival_ms, parse_request(element.payload)
    except RequestInvalid:
        return element.arrival_ms, None
