"""`busload-worker`: reads the settings, checks Redis, runs one worker, and ends with a code that says why.

0    drained, or nothing left to do
1    an error nobody foresaw; the log has it
2    a setting is wrong
3    Redis cannot be reached, or is not fit
4    the engine cannot start: model, memory or options
5    the machine is bad: its engine dies whatever it runs; others answer what it could not
130  stopped at once by a second SIGINT
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys

from busload_shared.connection import open_redis, without_secrets
from busload_shared.errors import BusloadUnavailable, EngineError, RedisUnfit, SettingsInvalid
from busload_shared.opening import open_queue
from busload_shared.queue import Queue
from busload_shared.replicated import Copies

try:
    from .engine_keeper import make_engine
    from .exporting import Exporting
    from .logs import configure_logs, fields
    from .metrics_endpoint import metrics_endpoint
    from .settings import Settings, load_settings
    from .startup import check_layout, check_redis
    from .worker import Worker
except ModuleNotFoundError as missing:
    if missing.name != "pydantic_settings":
        raise
    print(
        "busload-worker: a worker needs pydantic-settings. Run: pip install 'busload[vllm]', or 'busload[worker]' for "
        "the fake engine only",
        file=sys.stderr,
    )
    sys.exit(2)

DRAINED, UNFORESEEN, WRONG_SETTING, REDIS_UNFIT, ENGINE_UNFIT, BAD_MACHINE, ABORTED = 0, 1, 2, 3, 4, 5, 130

WORKER_PATIENCE_S = 2.0
"""How long one operation is repeated while Redis is away, before the worker says so."""

logger = logging.getLogger("busload.worker")


async def serve(settings: Settings) -> int:
    """Run one worker until it is stopped. Returns the exit code of a stop; failures are raised."""
    url = settings.redis_url.get_secret_value()
    queue, blocking = _open(settings), open_redis(url, queue=settings.queue)
    # not before: of what is no URL nobody knows which part is the password
    logger.info("starting", extra=fields(redis=without_secrets(url), queue=settings.queue, engine=settings.engine))
    exporting = Exporting(settings)
    try:
        uptime_s = min([await check_redis(redis) for redis in {part.redis for part in queue.parts}])
        worker = Worker(
            queue,
            blocking,
            make_engine(settings),
            settings,
            quiet_s=max(0.0, settings.lease_s - uptime_s),
        )
        signals = _Signals(worker)  # before anybody can see it: a stop may come from then on
        for part in queue.parts:
            await check_layout(part, worker.vitals.record(settings, pid=os.getpid()))
        worker.tracing = exporting.tracing
        with metrics_endpoint(worker.vitals, settings):
            await worker.run()
        if signals.aborted:
            return ABORTED
        return BAD_MACHINE if worker.broken else DRAINED
    finally:
        await queue.close()
        await blocking.aclose()
        await asyncio.to_thread(exporting.close)


def _open(settings: Settings) -> Queue:
    return open_queue(
        settings.redis_url.get_secret_value(),
        settings.queue,
        partitions=settings.partitions,
        copies=Copies(settings.wait_replicas, settings.wait_timeout_ms),
        patience_s=WORKER_PATIENCE_S,
    )


class _Signals:
    """SIGTERM or SIGINT drains; a second SIGINT aborts. A second SIGTERM does not: supervisors send it to be sure."""

    def __init__(self, worker: Worker) -> None:
        self.aborted = False
        self._interrupts = 0
        self._worker = worker
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, worker.stop)
        loop.add_signal_handler(signal.SIGINT, self._interrupted)

    def _interrupted(self) -> None:
        self._interrupts += 1
        if self._interrupts == 1:
            self._worker.stop()
            return
        logger.warning("second interrupt: stopping at once")
        self.aborted = True
        self._worker.abort()


def main() -> None:
    """The `busload-worker` command."""
    try:
        settings = load_settings(sys.argv[1:])
    except SettingsInvalid as error:
        print(f"busload-worker: wrong setting\n{error}", file=sys.stderr)
        sys.exit(WRONG_SETTING)
    configure_logs(settings.log_format, settings.log_level)
    sys.exit(_code(settings))


def _code(settings: Settings) -> int:
    try:
        return asyncio.run(serve(settings))
    except SettingsInvalid as error:
        logger.error("wrong setting: %s", error)
        return WRONG_SETTING
    except (BusloadUnavailable, RedisUnfit) as error:
        logger.error("cannot start: %s", error)
        return REDIS_UNFIT
    except EngineError as error:
        logger.error("the engine cannot start: %s", error)
        return ENGINE_UNFIT
    except Exception:
        logger.exception("ended by an error nobody foresaw: please report it")
        return UNFORESEEN


if __name__ == "__main__":
    main()
