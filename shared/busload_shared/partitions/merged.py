"""What the partitions of a queue tell, put together. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ..replies import DeadLetter, QueueInfo, Running, WorkerInfo


def merged_info(queue: str, infos: Sequence[QueueInfo]) -> QueueInfo:
    """One state of the whole queue. The partitions were asked at nearly the same moment."""
    counters: Counter[str] = Counter()
    for info in infos:
        counters.update(info.counters)
    return QueueInfo(
        queue=queue,
        now_ms=infos[0].now_ms,
        waiting=sum(info.waiting for info in infos),
        retry=sum(info.retry for info in infos),
        inflight=sum(info.inflight for info in infos),
        leases=sum(info.leases for info in infos),
        dead=sum(info.dead for info in infos),
        oldest_waiting_ms=_oldest(info.oldest_waiting_ms for info in infos),
        oldest_retry_ms=_oldest(info.oldest_retry_ms for info in infos),
        oldest_inflight_ms=_oldest(info.oldest_inflight_ms for info in infos),
        workers=_workers(infos),
        counters=dict(counters),
    )


def merged_running(parts: Sequence[Running]) -> Running:
    """All batches that are out."""
    return Running(parts[0].now_ms, tuple(batch for part in parts for batch in part.batches))


def newest_first(pages: Iterable[Sequence[DeadLetter]]) -> list[DeadLetter]:
    """The letters of all, by the moment they were written."""
    return sorted((letter for page in pages for letter in page), key=lambda letter: letter.at_ms, reverse=True)


def _oldest(ages: Iterable[float | None]) -> float | None:
    return max((age for age in ages if age is not None), default=None)


def _workers(infos: Sequence[QueueInfo]) -> tuple[WorkerInfo, ...]:
    """Each worker once, as it told last: it tells the partitions one after the other."""
    newest: dict[str, WorkerInfo] = {}
    for worker in (worker for info in infos for worker in info.workers):
        known = newest.get(worker.name)
        if known is None or (worker.looked_ms or 0.0, worker.batches_done) > (
            known.looked_ms or 0.0,
            known.batches_done,
        ):
            newest[worker.name] = worker
    return tuple(newest[name] for name in sorted(newest))
