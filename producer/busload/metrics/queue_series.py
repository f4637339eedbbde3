"""The series of one queue, from what one look at it told. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import get_args

from prometheus_client.core import Metric

from busload_shared.metrics.families import Families
from busload_shared.replies import QueueInfo, WorkerState
from busload_shared.result import Status

STATUSES: tuple[str, ...] = get_args(Status)
STATES: tuple[str, ...] = get_args(WorkerState)


def queue_series(info: QueueInfo) -> Iterator[Metric]:
    """All series of a queue that was looked at."""
    of = Families("queue", info.queue)
    yield from _places(of, info)
    yield from _totals(of, info)
    yield from _workers(of, info)


def _places(of: Families, info: QueueInfo) -> Iterator[Metric]:
    places = {"waiting": info.waiting, "retry": info.retry, "inflight": info.inflight}
    about = "Requests that wait, are to run again, or are in running batches"
    yield of.gauges("busload_queue_requests", about, "place", places)
    ages = {
        "waiting": info.oldest_waiting_ms,
        "retry": info.oldest_retry_ms,
        "inflight": info.oldest_inflight_ms,
    }
    about = "Age of the oldest: since it came, in flight since its batch was claimed; 0 where none is"
    yield of.gauges("busload_queue_oldest_age_seconds", about, "place", {p: (ms or 0) / 1000 for p, ms in ages.items()})
    yield of.gauge("busload_queue_running_batches", "Batches under a lease", info.leases)
    yield of.gauge("busload_queue_dead_letters", "Dead letters that stand there", info.dead)


def _totals(of: Families, info: QueueInfo) -> Iterator[Metric]:
    totals = info.counters
    here = info.waiting + info.retry + info.inflight
    arrivals = here + totals.get("dropped", 0) + sum(totals.get(status, 0) for status in STATUSES)
    about = "Requests that came: those that are there and those that left"
    yield of.counter("busload_queue_arrivals", about, arrivals)
    about = "Results written since the queue began, by status"
    yield of.counters("busload_queue_results", about, "status", totals, known=STATUSES)
    about = "Requests dropped because their id had been answered or was known"
    yield of.counter("busload_queue_duplicates_dropped", about, totals.get("dropped", 0))
    about = "Batches taken back from workers that fell silent"
    yield of.counter("busload_queue_reclaimed_batches", about, totals.get("reclaimed", 0))
    about = "Batches given up by workers whose engine died"
    yield of.counter("busload_queue_released_batches", about, totals.get("released", 0))


def _workers(of: Families, info: QueueInfo) -> Iterator[Metric]:
    found = Counter(worker.state if worker.state in STATES else "other" for worker in info.workers)
    states = {state: found[state] for state in (*STATES, "other")}
    yield of.gauges("busload_queue_workers", "Workers that told of themselves lately, by state", "state", states)
    seats = sum(worker.max_batch_size for worker in info.workers if worker.state == "ready")
    yield of.gauge("busload_queue_seats", "Requests that all ready workers can run at once", seats)
    about = "Requests that all ready workers do each second while they run; 0 while not known"
    yield of.gauge("busload_queue_rows_per_second", about, info.rows_per_s or 0.0)
    about = "Until a request that comes now would be claimed; 0 while not known"
    yield of.gauge("busload_queue_expected_wait_seconds", about, info.expected_wait_s or 0.0)
