"""`busload drain`."""

from __future__ import annotations

from collections.abc import Callable

from ..operating.draining import Drained, until_empty
from ..operating.reaching import queue_on
from .options import QUEUE, REDIS_URL, AsJson, QueueName, RedisUrl, TimeoutS, partitions
from .output import BAD_NEWS, DONE, Output, perform
from .progress import Counter, counting

_PATIENCE_S = 30.0
"""A drain takes minutes, and survives a Redis that restarts meanwhile."""


def drain(
    timeout_s: TimeoutS = None,
    redis_url: RedisUrl = REDIS_URL,
    queue: QueueName = QUEUE,
    as_json: AsJson = False,
) -> None:
    """Wait until nothing waits and nothing runs.

    Ends with 0 when it is so, with 1 when it is not in time.
    It stops neither producers nor workers: stop who enqueues first. At the end it tells how many were answered.

        busload drain --timeout-s 600 && docker compose stop worker
    """
    output = Output("busload drain", as_json)

    async def work() -> int:
        async with queue_on(redis_url, queue, partitions=partitions.get(), patience_s=_PATIENCE_S) as on:
            with counting(output, "answered", total=0) as counter:
                last = await until_empty(on, _teller(output, counter), timeout_s=timeout_s)
        return _told(output, last, queue)

    perform(output, work, interrupted="requests go on")


def _teller(output: Output, counter: Counter) -> Callable[[Drained], None]:
    warned = False

    def tell(drained: Drained) -> None:
        nonlocal warned
        if not (drained.is_served or drained.is_empty or warned):
            warned = True
            with counter.hidden():
                output.note("no worker is ready: nothing moves until one is started", "yellow")
        left = f"{drained.left} left"
        eta = f", about {drained.eta_s:.0f} s more" if drained.eta_s is not None and drained.left else ""
        counter.update(drained.done, total=drained.done + drained.left, detail=left + eta)

    return tell


def _told(output: Output, last: Drained, queue: str) -> int:
    if output.as_json:
        seconds = round(last.elapsed_s, 3)
        output.json_line({"empty": last.is_empty, "left": last.left, "answered": last.done, "elapsed_s": seconds})
    elif last.is_empty:
        output.answer(f"{queue} is empty after {last.elapsed_s:.1f} s; {last.done} answered meanwhile")
    if last.is_empty:
        return DONE
    output.complain(
        f"{queue} is not empty after {last.elapsed_s:.1f} s: {last.left} left. Wait longer, add workers, or stop "
        "who enqueues."
    )
    return BAD_NEWS
