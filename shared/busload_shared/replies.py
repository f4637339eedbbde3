"""What the queue answers: typed, so that no caller picks apart a Redis reply."""

from __future__ import annotations

import base64
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from .curve import ServiceCurve
from .element import Element
from .result import Result, Status, Trigger
from .wait_info import WaitInfo

SubmitState = Literal["queued", "waiting", "running", "answered", "full"]
"""`queued`: new, and in the queue now. `waiting`, `running`, `answered`: the id was known, nothing was added.
`full`: refused."""

State = Literal["unknown", "waiting", "running", "answered", "expired"]
CancelState = Literal["answered", "cancelled", "running", "unknown"]
WorkerState = Literal["starting", "ready", "restarting", "draining", "broken"]
"""What this version's workers say; a newer one may say something else."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """What became of each request of one submit, in order; `depth` is the number waiting after it."""

    now_ms: float
    depth: int
    states: tuple[SubmitState, ...]


class Seat(NamedTuple):
    """One claimed row: its place in the batch, and whether a cancel was found for it."""

    position: int
    element: Element
    cancelled: bool


@dataclass(frozen=True, slots=True)
class Claim:
    """A batch that left: its rows are in flight under this worker's lease. `depth` requests still wait. `read_at` is
    when Redis read its clock for `now_ms`, on our monotonic one, s."""

    batch: str
    now_ms: float
    claimed_ms: float
    depth: int
    trigger: Trigger
    seats: tuple[Seat, ...]
    read_at: float = field(default_factory=time.monotonic, compare=False)

    def clock_ms(self, at: float | None = None) -> float:
        """The Redis clock now, or `at` this moment, s, of the monotonic one, by which it is reckoned from the reply."""
        return self.now_ms + ((time.monotonic() if at is None else at) - self.read_at) * 1000


@dataclass(frozen=True, slots=True)
class NotYet:
    """No batch leaves now. `due_in_ms` until the oldest has waited long enough, None when nobody waits;
    `newest_ms` since the newest came, None where that is not known."""

    now_ms: float
    depth: int
    due_in_ms: float | None
    newest_ms: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Choice:
    """Which of the oldest a worker wants: (place from the old end, from 1; header up to the JSON), oldest first.
    `heavy` when they fill the batch by weight, though not by number."""

    picks: tuple[tuple[int, bytes], ...] = ()
    heavy: bool = False


NO_CHOICE = Choice()


def three_numbers(raw: bytes) -> tuple[float, float, float] | None:
    """As lua/learn.lua writes them; None for what somebody else wrote there."""
    try:
        first, second, third = map(float, raw.split())
    except ValueError:
        return None
    return first, second, third


class Delivery(NamedTuple):
    """One row's answer on its way to Redis: `position` in its batch; `letter` is the dead letter to leave with it,
    or empty."""

    position: int
    id: str
    status: Status
    reply: str
    result: bytes
    letter: bytes = b""


class RequestStatus(NamedTuple):
    """Where a request is. `result` when answered, `batch` (its id) when running; None else."""

    state: State
    result: Result | None = None
    batch: str | None = None


class Reclaimed(NamedTuple):
    """A batch taken back from a worker that let its lease run out."""

    batch: str
    meta: str
    rows: int


@dataclass(frozen=True, slots=True)
class RunningBatch:
    """A batch that is out now. `left` rows are unanswered; `waited_ms` is how long its first row had waited when it was
    claimed, None once that row is answered."""

    batch: str
    size: int
    trigger: str
    claimed_ms: float
    worker: str
    left: int
    waited_ms: float | None

    @classmethod
    def read(cls, batch: bytes, record: bytes, left: bytes, came_ms: bytes) -> Self | None:
        """From what lua/running.lua returns; None for a record that no script wrote."""
        try:
            size, trigger, claimed, worker = record.decode("utf-8", "replace").split(" ", 3)
            rows, claimed_ms = int(size), float(claimed)
            waited_ms = max(0.0, claimed_ms - float(came_ms)) if came_ms else None
            return cls(
                batch.decode("utf-8", "replace"), rows, trigger, claimed_ms, worker, int(left or rows), waited_ms
            )
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class Running:
    """The batches that are out at `now_ms`."""

    now_ms: float
    batches: tuple[RunningBatch, ...]


class _Record(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="ignore")


class WorkerInfo(_Record):
    """What a worker says of itself with each heartbeat; unknown fields of a newer worker are ignored.

    `state` is one of WorkerState, `partitions` how many of the queue's it serves. `batch` and `batch_size` (rows) are
    of the running batch. Counted since its start: `batches_done`, `rows_done`, `engine_restarts`, `leases_lost`,
    `proofs_broken` (batches that did not run as one unit), `out_of_memory` (runs). `rows_per_s` is its recent rate
    while running; `looked_ms` its last successful look at the queue, Unix ms on the Redis clock; `busload_version` is
    Busload's own, `version` the engine's; `curve` what it has learned of its batch times; `wait` of when requests
    come, where `max_wait_ms` is `auto`.
    """

    name: str
    state: str
    engine: str = ""
    model: str = ""
    version: str = ""
    pid: int = 0
    partitions: int = 1
    max_batch_size: int = 0
    max_wait_ms: float = 0
    batch: str | None = None
    batch_size: int = 0
    batches_done: int = 0
    rows_done: int = 0
    rows_per_s: float | None = None
    engine_restarts: int = 0
    leases_lost: int = 0
    proofs_broken: int = 0
    out_of_memory: int = 0
    looked_ms: float | None = None
    curve: ServiceCurve | None = None
    wait: WaitInfo | None = None
    busload_version: str = ""


class QueueInfo(_Record):
    """The state of a queue at one moment, `now_ms` (Unix ms on the Redis clock). Ages are in ms, None where nothing is
    there to have one.

    `waiting`, `retry` (to run again after a death) and `inflight` (in running batches) count requests, `leases` running
    batches, `dead` dead letters. `counters` are totals since the queue began, by name; those that are 0 may be missing.
    """

    queue: str
    now_ms: float
    waiting: int
    retry: int
    inflight: int
    leases: int
    dead: int
    oldest_waiting_ms: float | None
    oldest_retry_ms: float | None
    oldest_inflight_ms: float | None
    workers: tuple[WorkerInfo, ...]
    counters: dict[str, int]

    @classmethod
    def read(cls, queue: str, reply: Sequence[Any], *, workers: tuple[WorkerInfo, ...]) -> Self:
        """From what lua/queue_info.lua returns."""
        now, waiting, retry, inflight, leases, dead, old, suspect, claimed, _, counters = reply
        return cls(
            queue=queue,
            now_ms=float(now),
            waiting=waiting,
            retry=retry,
            inflight=inflight,
            leases=leases,
            dead=dead,
            oldest_waiting_ms=float(old) if old else None,
            oldest_retry_ms=float(suspect) if suspect else None,
            oldest_inflight_ms=float(claimed) if claimed else None,
            workers=workers,
            counters={
                name.decode("utf-8", "replace"): int(value)
                for name, value in zip(counters[::2], counters[1::2], strict=True)
                if value.isdigit() and len(value) < 20
            },
        )

    @property
    def rows_per_s(self) -> float | None:
        """What all ready workers do together, requests per second; None while none has told."""
        rates = [w.rows_per_s for w in self.workers if w.state == "ready" and w.rows_per_s]
        return sum(rates) if rates else None

    @property
    def expected_wait_s(self) -> float | None:
        """Seconds until a request that came now would board, None while no worker has told its rate."""
        return (self.waiting + self.retry) / self.rows_per_s if self.rows_per_s else None


class DeadLetter(BaseModel):
    """A request that will not be run again, with the evidence. `payload` is base64 where it is no UTF-8."""

    # `allow`: a newer worker's letter is found by its very bytes
    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="allow")

    id: str | None
    code: str
    message: str
    at_ms: float
    enqueued_ms: float
    attempts: int
    batch: str
    worker: str
    payload: str
    payload_is_base64: bool = False

    @classmethod
    def read(cls, letter: bytes) -> Self | None:
        """A stored letter, None for what no worker wrote."""
        try:
            return cls.model_validate_json(letter)
        except ValidationError:
            return None

    @staticmethod
    def text_of(payload: bytes) -> tuple[str, bool]:
        """The payload as JSON text can hold it, and whether that is base64."""
        try:
            return payload.decode("utf-8"), False
        except UnicodeDecodeError:
            return base64.b64encode(payload).decode("ascii"), True

    @property
    def payload_bytes(self) -> bytes:
        """The producer's bytes as they came."""
        return base64.b64decode(self.payload) if self.payload_is_base64 else self.payload.encode("utf-8")
