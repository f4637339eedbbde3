"""What a peer does when one item fails, when a client leaves, and when its worker is killed: by doing it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from . import figures
from .serving import IN_PROCESS, ROWS, Server, Work, serving, start_busload_worker

CLIENT = str(Path(__file__).with_name("client.py"))
RUN_S = 3.0
"""How long a batch takes here: long enough to do something in its midst, whatever the machine is busy with."""
LIMIT_S = 45.0
"""After so long without an answer the caller counts as hanging; Busload's lease is 15 s."""


class Caller:
    """A client process that sends its prompts when told to."""

    def __init__(self, server: Server, prompts: list[str]) -> None:
        job = {"kind": "send", "prompts": prompts, "limit_s": LIMIT_S}
        command = [server.python, CLIENT, server.style, server.address, json.dumps(job)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, env=server.environment, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, start_new_session=True
        )
        self._expect(b"ready")

    def _expect(self, word: bytes) -> None:
        assert self.process.stdout is not None
        while (line := self.process.stdout.readline().strip()) != word:
            if not line:
                raise RuntimeError("the client ended before it was ready: is the server up?")

    def send(self) -> None:
        """Returns 0.3 s after it was sent."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"go\n")
        self.process.stdin.flush()
        self._expect(b"sent")

    def outcomes(self) -> list[Any]:
        """What each prompt got, and after how many seconds."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line)["outcomes"] if line else []

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def callers(server: Server, *prompts: list[str]) -> Iterator[list[Caller]]:
    """Client processes, connected and warm; ended at the end."""
    started: list[Caller] = []
    try:
        for some in prompts:
            started.append(Caller(server, some))
        yield started
    finally:
        for caller in started:
            caller.kill()


def one_item_fails(name: str) -> str:
    """Eight rows together, one of them bad."""
    with (
        serving(name, Work(window_ms=200)) as server,
        callers(server, ["BAD", *(f"good {i}" for i in range(7))]) as (it,),
    ):
        it.send()
        return figures.neighbours(it.outcomes())


def client_leaves(name: str, *, running: bool) -> str:
    """The client of a running, or of a queued, request is killed; a second client's answer tells what went on."""
    work = Work(base_ms=RUN_S * 1000, batch=1)
    with serving(name, work) as server, callers(server, ["first"], ["leaves"], ["next"]) as (first, leaves, following):
        if not running:
            first.send()
        began = time.perf_counter()
        leaves.send()
        leaves.kill()
        time.sleep(0.2)
        left_s = time.perf_counter() - began
        following.send()
        ((told, answered_s),) = following.outcomes()
        if told != "ok":
            return f"next client got {figures.short(told)}"
        left_s += 0 if running else 0.3
        return figures.leaving(answered_s, run_s=RUN_S, left_s=left_s, running=running)


def worker_killed(name: str) -> str:
    """kill -9 to the process that runs batches, amid one; Busload's worker is then started again, as by systemd."""
    with serving(name, Work(base_ms=RUN_S * 1000)) as server, callers(server, [f"row {i}" for i in range(4)]) as (it,):
        it.send()
        time.sleep(0.5)
        victim = (
            server.roots[-1].pid
            if server.style == "busload"
            else struct.unpack("<qqq", server.counts.read_bytes()[:24])[2]
        )
        alone = victim in {root.pid for root in server.roots}
        os.kill(victim, signal.SIGKILL)
        if alone and server.style == "busload":
            server.roots[-1].wait()
            start_busload_worker(server)
        told = figures.killed(it.outcomes())
        return told + ("; needs a supervisor" if alone else "; " + _alive(server, victim))


def _alive(server: Server, victim: int) -> str:
    """Whether a request is served again afterwards."""
    try:
        with callers(server, ["again"]) as (again,):
            again.send()
            return f"then {figures.short(again.outcomes()[0][0])}"
    except (RuntimeError, psutil.Error):
        return f"then serves no more (worker {victim} was not replaced)"


def all_of(name: str) -> dict[str, str]:
    """Every behaviour of a peer, in short phrases."""
    if ROWS[name].client == IN_PROCESS:
        return {}
    tried = {
        "one item fails": lambda: one_item_fails(name),
        "client of a running request leaves": lambda: client_leaves(name, running=True),
        "client of a queued request leaves": lambda: client_leaves(name, running=False),
        "worker killed with -9": lambda: worker_killed(name),
    }
    found = {}
    for what, attempt in tried.items():
        try:
            found[what] = attempt()
        except Exception as error:  # the next behaviour is worth knowing all the same
            last = str(error).strip().rpartition("\n")[2]
            found[what] = f"could not be tried: {type(error).__name__}: {last}"[:200]
        print(f"  {name}: {what}: {found[what]}", flush=True)
    return found
