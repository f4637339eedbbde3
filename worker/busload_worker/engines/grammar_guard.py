"""Keeps grammars that compile for ever, eat the memory or break the compiler away from the engine."""

from __future__ import annotations

import hashlib
import logging
import os
import select
import subprocess
import sys
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping

from .grammar_lines import Grammar, Trial, TrialRules, Verdict, to_line

logger = logging.getLogger("busload.engine")

AT_ONCE = max(2, min(8, os.cpu_count() or 2))
FIRST_S = 0.1
"""Each gets a short trial first, and ones eight times as long while it is too slow, after all others had theirs: slow
grammars wait for quick ones, not the other way round."""
MEMORY_BYTES = 1 << 30
PATIENCE = 6
"""A batch waits for its trials this many times the limit of one."""
_LOADING_S = 60.0
_LOOK_S = 0.2
_KNOWN = 16_384

NO_TIME = "its batch held too many grammars that compile slowly; send it again"
NO_TRIALS = "the trials of grammars broke; the worker's log tells more"


class GrammarGuard:
    """Tries each grammar once in a process of its own, and remembers what came of it.

    A trial fails that takes more than `timeout_s` of processor time, or more than a GiB. One thread only.
    """

    def __init__(self, tokenizer: str, *, any_whitespace: bool, timeout_s: float) -> None:
        rules = TrialRules(
            tokenizer=tokenizer,
            any_whitespace=any_whitespace,
            memory_bytes=MEMORY_BYTES,
            parent=os.getpid(),
        )
        self._rules = to_line(rules)
        self._timeout_s = timeout_s
        self._too_slow = f"it did not compile within {timeout_s:g} s of processor time"
        self._known: OrderedDict[bytes, str | None] = OrderedDict()
        self._numbers = 0
        self._spawn()

    def problems(self, grammars: Mapping[int, Grammar], *, tick: Callable[[], None]) -> dict[int, str]:
        """What is wrong with which of these grammars; fit ones are left out. Calls `tick` while it waits."""
        names = {index: _name(grammar) for index, grammar in grammars.items()}
        unknown = {names[index]: grammar for index, grammar in grammars.items() if names[index] not in self._known}
        found = self._try(unknown, tick)
        told = {index: self._known.get(name, found.get(name)) for index, name in names.items()}
        self._remember(found)
        return {index: problem for index, problem in told.items() if problem is not None}

    def close(self) -> None:
        """End the trials."""
        self._process.kill()
        self._process.communicate()

    def _spawn(self) -> None:
        """Loading xgrammar takes seconds there, which a worker that starts needs for its model anyway."""
        command = [sys.executable, "-m", "busload_worker.engines.grammar_trials"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self._unread = b""
        self._loading = True
        self._send(self._rules)

    def _try(self, unknown: Mapping[bytes, Grammar], tick: Callable[[], None]) -> dict[bytes, str | None]:
        """The verdicts on all of them."""
        found: dict[bytes, str | None] = {}
        left = deque((name, min(FIRST_S, self._timeout_s)) for name in unknown)
        running: dict[int, tuple[bytes, float]] = {}
        if not unknown or not self._loaded(tick):
            return self._broken(True, list(unknown)) if unknown else {}
        give_up = time.monotonic() + PATIENCE * self._timeout_s
        while left or running:
            while left and len(running) < AT_ONCE:
                self._numbers += 1
                running[self._numbers] = (name, cpu_s) = left.popleft()
                self._send(to_line(Trial(number=self._numbers, grammar=unknown[name], cpu_s=cpu_s)))
            tick()
            verdicts = self._verdicts()
            if verdicts is None or time.monotonic() > give_up:
                return found | self._broken(verdicts is None, [name for name, _ in (*running.values(), *left)])
            for verdict in verdicts:
                name, cpu_s = running.pop(verdict.number)
                if verdict.slow and cpu_s < self._timeout_s:
                    left.append((name, min(8 * cpu_s, self._timeout_s)))
                else:
                    found[name] = self._too_slow if verdict.slow else verdict.problem
        return found

    def _loaded(self, tick: Callable[[], None]) -> bool:
        """Whether the trials' process is ready; it takes seconds to load."""
        give_up = time.monotonic() + _LOADING_S
        while self._loading and time.monotonic() < give_up:
            tick()
            verdicts = self._verdicts()
            if verdicts is None:
                return False
            self._loading = not verdicts
        return not self._loading

    def _verdicts(self) -> list[Verdict] | None:
        """What came within a moment; None when the trials' process is gone."""
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], _LOOK_S)[0]:
            return []
        block = os.read(self._process.stdout.fileno(), 1 << 16)
        *lines, self._unread = (self._unread + block).split(b"\n")
        return [Verdict.model_validate_json(line) for line in lines] if block else None

    def _broken(self, ended: bool, names: list[bytes]) -> dict[bytes, str | None]:
        """Start anew: what ran there is of no use to anybody any more."""
        logger.error("the trials of grammars %s: starting them again", "ended" if ended else "took too long")
        self.close()
        self._spawn()
        return dict.fromkeys(names, NO_TRIALS if ended else NO_TIME)

    def _send(self, line: bytes) -> None:
        assert self._process.stdin is not None
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[self._process.stdin.write(rest) :]
        except BrokenPipeError:
            pass  # the next look finds it ended

    def _remember(self, found: Mapping[bytes, str | None]) -> None:
        self._known |= {name: problem for name, problem in found.items() if problem not in (NO_TIME, NO_TRIALS)}
        while len(self._known) > _KNOWN:
            self._known.popitem(last=False)


def _name(grammar: Grammar) -> bytes:
    return hashlib.blake2b(f"{grammar.kind} {grammar.text}".encode("utf-8", "replace"), digest_size=20).digest()
