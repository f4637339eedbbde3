"""The engine's own process: `python -m busload_worker.engines.host_child`, started by `host.py` only.

It is in a session of its own, so that a signal to the worker's group does not reach a running batch, and it
dies with the worker's thread that started it. The core runs in the main thread; one thread takes commands
and one beats.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import queue
import signal
import sys
import threading
import time
import traceback
from typing import BinaryIO, cast

from pydantic import ValidationError

from busload_shared.errors import EngineDied, EngineStartFailed
from busload_shared.request import Message, Request

from .host_lines import (
    COMMANDS,
    MAX_LINE_BYTES,
    Beat,
    Command,
    Ready,
    Run,
    RunFailed,
    Setup,
    StartFailed,
    Stop,
    Told,
    to_line,
    unreadable,
)
from .protocol import BatchDone, BatchStarted, Core, EngineRow, RowDone, RowRefused
from .shortage import ran_out_of_memory

CORES = {
    "fake": "busload_worker.engines.fake_core:FakeCore",
    "vllm": "busload_worker.engines.vllm_core:VllmCore",
}

_PR_SET_PDEATHSIG = 1


class Child:
    """Takes batches from the pipe, one after the other, until it is told to stop or the pipe ends."""

    def __init__(self, commands: BinaryIO, reports: BinaryIO) -> None:
        self._commands = commands
        self._reports = reports
        self._writing = threading.Lock()
        self._inbox: queue.SimpleQueue[Run | None] = queue.SimpleQueue()
        self._progress = 0
        self._current = 0
        self._over = 0
        self._aborts: dict[int, frozenset[int]] = {}

    def serve(self, setup: Setup) -> int:
        """Load, run batches, close. Returns the exit status: 1 when it cannot load or must not go on."""
        threading.Thread(target=self._beat, args=(setup.beat_s,), name="beat", daemon=True).start()
        core = None
        try:
            core = _make_core(setup)
            info = core.load()
        except Exception as error:
            traceback.print_exc()
            told = str(error) if isinstance(error, EngineStartFailed) else f"{type(error).__name__}: {error}"
            self._write(StartFailed(message=told))
            if core is not None:
                core.close()
            return 1
        threading.Thread(target=self._read, name="commands", daemon=True).start()
        self._write(Ready(info=info.model_copy(update={"pid": os.getpid()})))
        while (run := self._inbox.get()) is not None:
            try:
                self._run(core, run)
            except EngineDied:
                traceback.print_exc()
                return 1
        core.close()
        return 0

    def _run(self, core: Core, run: Run) -> None:
        self._current = run.run
        self._tick()
        try:
            core.run(self._read_rows(run), emit=self._emit, aborted=self._aborted, tick=self._tick)
        except EngineDied:
            raise
        except Exception as error:
            traceback.print_exc()
            message = f"{type(error).__name__}: {error}"[:1000]
            self._write(RunFailed(run=run.run, message=message, out_of_memory=ran_out_of_memory(error)))
        self._over = run.run
        self._aborts.pop(run.run, None)

    def _read_rows(self, run: Run) -> list[EngineRow]:
        rows = []
        for row in run.rows:
            try:
                rows.append(EngineRow(index=row.index, request=Request.model_validate_json(row.request)))
            except ValidationError:
                self._emit(unreadable(row.index))
        return rows

    def _emit(self, event: BatchStarted | RowDone | RowRefused | BatchDone) -> None:
        self._tick()
        line = to_line(Told(run=self._current, event=event))
        if len(line) > MAX_LINE_BYTES and isinstance(event, RowDone):
            message = f"the answer is {len(line)} bytes of JSON; the limit is {MAX_LINE_BYTES}"
            refused = RowRefused(index=event.index, code="engine_error", message=message)
            line = to_line(Told(run=self._current, event=refused))
        self._write_line(line)

    def _aborted(self) -> frozenset[int]:
        return self._aborts.get(self._current, frozenset())

    def _tick(self) -> None:
        self._progress += 1

    def _read(self) -> None:
        """Take commands. An end of the pipe means that the worker is gone: nobody wants the batch any
        more."""
        try:
            for line in self._commands:
                self._take(COMMANDS.validate_json(line))
        finally:
            _end_session()

    def _take(self, command: Command) -> None:
        if isinstance(command, Run):
            self._inbox.put(command)
        elif isinstance(command, Stop):
            self._inbox.put(None)
        elif command.run > self._over:
            known = self._aborts.get(command.run, frozenset())
            self._aborts[command.run] = known | frozenset(command.indexes)

    def _beat(self, beat_s: float) -> None:
        while True:
            self._write(Beat(progress=self._progress))
            time.sleep(beat_s)

    def _write(self, message: Message) -> None:
        self._write_line(to_line(message))

    def _write_line(self, line: bytes) -> None:
        try:
            with self._writing:
                self._reports.write(line)
                self._reports.flush()
        except OSError:
            _end_session()


def _make_core(setup: Setup) -> Core:
    module, _, name = CORES.get(setup.core, setup.core).partition(":")
    try:
        core_class = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        known = ", ".join(CORES)
        raise EngineStartFailed(
            f"engine {setup.core!r} cannot be imported ({error}); "
            f"set BUSLOAD_ENGINE to one of {known}, or to package.module:Class"
        ) from error
    return cast("Core", core_class.from_json(setup.config))


def _end_session() -> None:
    """End this process and all that the engine started, at once."""
    if os.getsid(0) == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Keep the two pipes to ourselves: whatever the engine prints goes to stderr, and its stdin is empty."""
    commands, reports = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return os.fdopen(commands, "rb"), os.fdopen(reports, "wb")


def main() -> int:
    """Exit status 0 after a stop."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    commands, reports = _take_pipes()
    first = commands.readline()
    if not first:
        return 1
    setup = Setup.model_validate_json(first)
    if os.getppid() != setup.parent:
        return 1
    return Child(commands, reports).serve(setup)


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    # A thread waits for commands, and what the engine left (threads, exit handlers) may hang: do not ask it.
    os._exit(status)
