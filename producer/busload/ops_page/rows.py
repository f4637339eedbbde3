"""What the page says of workers, buses and dead letters, a row for each. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha1

from busload_shared.curve import ServiceCurve
from busload_shared.replies import DeadLetter, WorkerInfo

from ..operating.dead_letters import name_of, print_of
from ..operating.watching import Bus, Frame
from .figures import NONE, ago, count, counted, plain, rate, span
from .overview import Tone

_STATES: dict[str, Tone] = {"ready": "good", "starting": "warn", "restarting": "warn", "draining": "warn"}
BUSES_SHOWN = 20
WORKERS_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Gauge:
    """Seats of a bus: percent taken by rows that run, and by rows that are answered; both in words in `text`."""

    answered: float
    running: float
    text: str


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """One worker. `key` names its row in the page. `facts` are shown on demand."""

    key: str
    name: str
    state: str
    tone: Tone
    model: str
    runs: str
    since: str
    gauge: Gauge | None
    leaves_when: str
    rate: str
    done: str
    looked: str
    troubles: int
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class BusRow:
    """One bus. `note` says what became of it, where that is not all well."""

    key: str
    name: str
    left: str
    worker: str
    trigger: str
    gauge: Gauge
    waited: str
    ran: str
    held: str
    is_out: bool
    note: str


@dataclass(frozen=True, slots=True)
class LetterRow:
    """One dead letter. `whole_print` is for the buttons."""

    name: str
    whole_print: str
    id: str
    code: str
    message: str
    died: str
    lived: str
    runs: str
    worker: str


def worker_rows(frame: Frame) -> tuple[WorkerRow, ...]:
    """The workers, those that are not ready first; of very many not all."""
    out = {bus.batch.batch: bus for bus in frame.buses if not bus.is_back}
    shown = sorted(frame.info.workers, key=lambda one: (one.state == "ready", one.name))[:WORKERS_SHOWN]
    return tuple(_worker(one, out, frame.info.now_ms) for one in shown)


def _worker(worker: WorkerInfo, out: dict[str, Bus], now_ms: float) -> WorkerRow:
    bus = out.get(worker.batch) if worker.batch else None
    idle = "waits for requests" if worker.state == "ready" else ""
    looked = None if worker.looked_ms is None else now_ms - worker.looked_ms
    return WorkerRow(
        key="w-" + sha1(worker.name.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()[:12],
        name=plain(worker.name, 80),
        state=plain(worker.state, 32),
        tone=_STATES.get(worker.state, "bad"),
        model=plain(" · ".join(filter(None, (worker.engine, worker.model))), 120) or NONE,
        runs=f"bus {plain(worker.batch[-8:])}" if worker.batch else idle or NONE,
        since=f"left {ago(now_ms - bus.batch.claimed_ms)}" if bus else "",
        gauge=_gauge(worker.batch_size, bus.batch.left if bus else worker.batch_size, worker.max_batch_size)
        if worker.batch
        else None,
        leaves_when=_leaves_when(worker),
        rate=rate(worker.rows_per_s),
        done=f"{count(worker.rows_done)} in {counted(worker.batches_done, 'bus', 'buses')}",
        looked=ago(looked) if not worker.batch else "runs",
        troubles=worker.engine_restarts + worker.leases_lost + worker.out_of_memory + worker.proofs_broken,
        facts=_facts(worker),
    )


def _leaves_when(worker: WorkerInfo) -> str:
    """Why a bus of this worker leaves or waits."""
    if worker.wait is not None:
        return plain(worker.wait.reason, 160) or "learns when to leave"
    return f"full ({worker.max_batch_size}) or after {span(worker.max_wait_ms)}"


def _facts(worker: WorkerInfo) -> tuple[tuple[str, str], ...]:
    return (
        ("Engine's version", plain(worker.version, 60) or NONE),
        ("Process", str(worker.pid) if worker.pid else NONE),
        ("Seats", str(worker.max_batch_size)),
        ("Waits at most", span(worker.max_wait_ms) if worker.max_wait_ms else NONE),
        ("Batch time, learned", _curve(worker.curve)),
        ("Engine restarts", count(worker.engine_restarts)),
        ("Leases lost", count(worker.leases_lost)),
        ("Out of memory", count(worker.out_of_memory)),
        ("Not run as one unit", count(worker.proofs_broken)),
    )


def _curve(curve: ServiceCurve | None) -> str:
    if curve is None:
        return "not yet"
    return (
        f"{curve.overhead_ms:.3g} ms, {curve.prompt_ms:.3g} ms for each prompt token, {curve.step_ms:.3g} ms for each "
        f"token of the longest row, {curve.token_ms:.3g} ms for each token of all"
    )


def bus_rows(frame: Frame) -> tuple[BusRow, ...]:
    """The last buses, the newest first."""
    seats = seats_of(frame)
    return tuple(_bus(bus, seats.get(bus.batch.worker, 0), frame.info.now_ms) for bus in frame.buses[:BUSES_SHOWN])


def seats_of(frame: Frame) -> dict[str, int]:
    """How many each worker takes at most."""
    return {worker.name: worker.max_batch_size for worker in frame.info.workers}


def _bus(bus: Bus, seats: int, now_ms: float) -> BusRow:
    batch, past = bus.batch, bus.past
    left = batch.left if past is not None or not bus.is_back else 0
    note = f"{count(past.unanswered)} went back" if past is not None and past.unanswered else ""
    return BusRow(
        key="b-" + sha1(batch.batch.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()[:12],
        name=plain(batch.batch[-8:], 8),
        left=ago(now_ms - batch.claimed_ms),
        worker=plain(batch.worker, 80),
        trigger=plain(batch.trigger, 16),
        gauge=_gauge(batch.size, left, seats),
        waited=span(batch.waited_ms),
        ran=span(past.run_ms if past is not None else bus.out_ms),
        held=span(past.held_ms) if past is not None else NONE,
        is_out=not bus.is_back,
        note=note,
    )


def _gauge(size: int, left: int, seats: int) -> Gauge:
    most = max(seats, size, 1)
    running = min(left, size)
    text = f"{size} of {seats}" if seats else str(size)
    return Gauge(round(100 * (size - running) / most, 1), round(100 * running / most, 1), text)


def letter_row(letter: DeadLetter, now_ms: float) -> LetterRow:
    """A letter without its request: a prompt is nobody's business here."""
    return LetterRow(
        name=name_of(letter),
        whole_print=print_of(letter),
        id=plain(letter.id, 128) if letter.id else "cannot be read",
        code=plain(letter.code, 40),
        message=plain(letter.message),
        died=ago(now_ms - letter.at_ms),
        lived=span(max(0.0, letter.at_ms - letter.enqueued_ms)),
        runs=count(letter.attempts),
        worker=plain(letter.worker, 80),
    )
