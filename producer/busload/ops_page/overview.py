"""What the page says of one queue: figures in tiles, and what wants attention. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from busload_shared.replies import QueueInfo

from ..operating.watching import Frame
from .figures import NONE, count, counted, plain, rate, share, span
from .sight import RIGHTS, Seen

Tone = Literal["", "good", "warn", "bad"]

LONG_WAIT_S = 60.0
"""A newcomer who waits longer is told of."""


@dataclass(frozen=True, slots=True)
class Tile:
    """One figure, with a line of explanation."""

    label: str
    value: str
    note: str = ""
    tone: Tone = ""


@dataclass(frozen=True, slots=True)
class Concern:
    """What wants attention, and what to do; `command` is for a terminal."""

    tone: Tone
    text: str
    command: str = ""


@dataclass(frozen=True, slots=True)
class QueueLine:
    """A queue among several: `ready` of `workers` take requests."""

    name: str
    waiting: str
    oldest: str
    inflight: str
    boards_in: str
    workers: str
    dead: str
    tone: Tone


def queue_line(seen: Seen) -> QueueLine:
    """One line of the table of queues."""
    if seen.frame is None:
        return QueueLine(seen.queue, NONE, NONE, NONE, NONE, NONE, NONE, "bad")
    info = seen.frame.info
    concerns = [concern.tone for concern in concerns_of(seen)]
    tone: Tone = "bad" if "bad" in concerns else "warn" if "warn" in concerns else "good"
    return QueueLine(
        name=seen.queue,
        waiting=count(info.waiting),
        oldest=span(info.oldest_waiting_ms),
        inflight=count(info.inflight),
        boards_in=_boards_in(info),
        workers=f"{_ready(info)} of {len(info.workers)}",
        dead=count(info.dead),
        tone=tone,
    )


def tiles(frame: Frame) -> tuple[Tile, ...]:
    """The queue's figures now. Rates and fill are of the last ten seconds."""
    info, ready = frame.info, _ready(frame.info)
    seats = sum(worker.max_batch_size for worker in info.workers if worker.state == "ready")
    out = counted(info.leases, "bus", "buses")
    failed = f"{rate(frame.failed_per_s)} failed" if frame.failed_per_s else "last 10 s"
    return (
        Tile("Waiting", count(info.waiting), _oldest(info.oldest_waiting_ms)),
        Tile("In flight", count(info.inflight), f"on {out}"),
        Tile("To run again", count(info.retry), _oldest(info.oldest_retry_ms), "warn" if info.retry else ""),
        Tile("Answers/s", rate(frame.answered_per_s), failed, "warn" if frame.failed_per_s else ""),
        Tile("Boards in", _boards_in(info), "expected for a newcomer"),
        Tile("Workers ready", f"{ready} of {len(info.workers)}", counted(seats, "seat"), "" if ready else "bad"),
        Tile("Fill", share(frame.fill), _size(frame)),
        Tile("Dead letters", count(info.dead), "given up", "warn" if info.dead else ""),
    )


def concerns_of(seen: Seen) -> tuple[Concern, ...]:
    """The worst first."""
    found = []
    if seen.trouble is not None:
        since = "" if seen.frame is None else f" What stands here is {span(seen.age_s * 1000)} old."
        found.append(Concern("bad", f"{plain(seen.trouble)}.{since} This page tries again by itself."))
    if seen.is_narrow:
        found.append(Concern("warn", RIGHTS))
    if seen.frame is not None and seen.trouble is None:
        found += _of_workers(seen.frame.info) + _of_requests(seen.frame.info)
    return tuple(sorted(found, key=lambda concern: concern.tone != "bad"))


def _of_workers(info: QueueInfo) -> list[Concern]:
    waiting = info.waiting + info.retry
    if not info.workers:
        who = f"{counted(waiting, 'request')} wait" + ("s" if waiting == 1 else "") if waiting else "Requests will wait"
        said = f"No worker is up. {who} until there is one. Start one with:"
        return [Concern("bad" if waiting else "warn", said, f"BUSLOAD_QUEUE={info.queue} busload-worker")]
    found = [
        Concern("bad", f"Worker {plain(one.name, 64)} is broken: its machine ended whatever it ran. Its log says more.")
        for one in info.workers
        if one.state == "broken"
    ]
    if not _ready(info):
        states = ", ".join(sorted({plain(one.state, 32) for one in info.workers}))
        found.append(Concern("bad", f"No worker is ready, they are: {states}. Their logs say why."))
    return found


def _of_requests(info: QueueInfo) -> list[Concern]:
    found = []
    if info.retry:
        said = f"{counted(info.retry, 'request')} will run again: the worker or the engine that ran them died."
        found.append(Concern("warn", said))
    wait_s = info.expected_wait_s
    if wait_s is not None and wait_s > LONG_WAIT_S:
        said = f"Who comes now waits about {span(wait_s * 1000)}. busload plan says how many workers it takes."
        found.append(Concern("warn", said))
    return found


def _ready(info: QueueInfo) -> int:
    return sum(worker.state == "ready" for worker in info.workers)


def _boards_in(info: QueueInfo) -> str:
    return NONE if info.expected_wait_s is None else span(info.expected_wait_s * 1000)


def _oldest(ms: float | None) -> str:
    return "nobody" if ms is None else f"oldest {span(ms)}"


def _size(frame: Frame) -> str:
    return "last 10 s" if frame.mean_size is None else f"{rate(frame.mean_size)} a bus, last 10 s"
