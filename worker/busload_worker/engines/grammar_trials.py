"""Tries grammars, each in a process that may be killed: `python -m busload_worker.engines.grammar_trials`.

xgrammar is native code without a time limit. A grammar that compiles for an hour, eats all memory or breaks the
compiler would do so inside the engine. Here a fork does it first, under limits, and only that fork dies.
"""

from __future__ import annotations

import ctypes
import os
import random
import resource
import selectors
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .grammar_lines import Grammar, Trial, TrialRules, Verdict, to_line

_PR_SET_PDEATHSIG = 1
_STEPS = 12
"""Tokens that a trial chooses at random after compiling: some grammars compile at once, and then need seconds for
each token, in which all rows of a batch wait."""
_SLOWEST_STEP_S = 0.5
_REASON_LENGTH = 400
_WALL = 4
"""The limit is processor time, so that an honest grammar passes on a busy machine; by the clock it is so much more."""


@dataclass(frozen=True, slots=True)
class _Running:
    number: int
    pid: int
    deadline: float


class Trials:
    """Forks one process for each trial and tells its verdict. The one who sends them limits how many run at once."""

    def __init__(self, rules: TrialRules, commands: int, reports: int, *, unread: bytes) -> None:
        import xgrammar

        self._rules = rules
        self._commands = commands
        self._reports = reports
        self._tokenizer = xgrammar.TokenizerInfo.deserialize_json(rules.tokenizer)
        self._memory = _address_space() + rules.memory_bytes
        self._ready = selectors.DefaultSelector()
        self._unread = unread

    def serve(self) -> None:
        """Until the pipe ends."""
        os.write(self._reports, to_line(Verdict(number=0)))
        self._ready.register(self._commands, selectors.EVENT_READ)
        for trial in self._trials():
            self._start(trial)
        while True:
            for key, _ in self._ready.select(self._until_next_deadline()):
                if isinstance(key.data, _Running):
                    self._ended(key.fd, key.data)
                else:
                    self._unread += _read(self._commands)
            for trial in self._trials():
                self._start(trial)
            for fd, running in self._overdue():
                self._kill(running)
                self._tell(fd, running, None, slow=True)

    def _trials(self) -> Iterator[Trial]:
        *lines, self._unread = self._unread.split(b"\n")
        for line in lines:
            yield Trial.model_validate_json(line)

    def _start(self, trial: Trial) -> None:
        theirs, ours = os.pipe()
        pid = os.fork()
        if pid == 0:
            self._try(trial, ours)
        os.close(ours)
        running = _Running(trial.number, pid, time.monotonic() + _WALL * trial.cpu_s + 1)
        self._ready.register(theirs, selectors.EVENT_READ, running)

    def _try(self, trial: Trial, report: int) -> None:
        """In the fork: it never comes back."""
        try:
            _die_with_parent()
            os.nice(5)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_AS, (self._memory, self._memory))
            signal.setitimer(signal.ITIMER_PROF, trial.cpu_s)
            told = _problem(trial.grammar, self._tokenizer, any_whitespace=self._rules.any_whitespace)
        except MemoryError:
            told = "it needs too much memory"
        except BaseException as error:
            told = " ".join(str(error).split())[:_REASON_LENGTH] or type(error).__name__
        os.write(report, b"=" + (told or "").encode("utf-8", "replace"))
        os._exit(0)

    def _ended(self, fd: int, running: _Running) -> None:
        told = os.read(fd, 16 * _REASON_LENGTH)
        _, status = os.waitpid(running.pid, 0)
        if told.startswith(b"="):
            self._tell(fd, running, told[1:].decode("utf-8", "replace") or None)
        elif os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGPROF:
            self._tell(fd, running, None, slow=True)
        else:
            self._tell(fd, running, "the grammar compiler broke on it, or needed too much memory")

    def _kill(self, running: _Running) -> None:
        os.kill(running.pid, signal.SIGKILL)
        os.waitpid(running.pid, 0)

    def _tell(self, fd: int, running: _Running, problem: str | None, *, slow: bool = False) -> None:
        self._ready.unregister(fd)
        os.close(fd)
        os.write(self._reports, to_line(Verdict(number=running.number, problem=problem, slow=slow)))

    def _overdue(self) -> list[tuple[int, _Running]]:
        now = time.monotonic()
        trials = [(key.fd, key.data) for key in self._ready.get_map().values()]
        return [(fd, running) for fd, running in trials if isinstance(running, _Running) and running.deadline <= now]

    def _until_next_deadline(self) -> float | None:
        running = [key.data for key in self._ready.get_map().values() if isinstance(key.data, _Running)]
        return max(0.0, min(one.deadline for one in running) - time.monotonic()) if running else None


def _problem(grammar: Grammar, tokenizer: Any, *, any_whitespace: bool) -> str | None:
    """Compile as the engine will, and take a few tokens. Raises what xgrammar raises."""
    import xgrammar

    compiler = xgrammar.GrammarCompiler(tokenizer, max_threads=1, cache_enabled=False)
    if grammar.kind == "json":
        separators = None if any_whitespace else (",", ":")
        compiled = compiler.compile_json_schema(grammar.text, any_whitespace=any_whitespace, separators=separators)
    elif grammar.kind == "regex":
        compiled = compiler.compile_regex(grammar.text)
    elif grammar.kind == "lark":
        compiled = compiler.compile_lark(grammar.text)
    else:
        compiled = compiler.compile_grammar(grammar.text)
    return _slow_step(xgrammar, xgrammar.GrammarMatcher(compiled), tokenizer.vocab_size)


def _slow_step(xgrammar: Any, matcher: Any, vocabulary: int) -> str | None:
    mask, chance = xgrammar.allocate_token_bitmask(1, vocabulary), random.Random(1)
    for step in range(_STEPS):
        began = time.process_time()
        matcher.fill_next_token_bitmask(mask)
        words = [(at, word) for at, word in enumerate(mask[0].tolist()) if word]
        if not words:
            return None if step else "it allows no answer"
        at, word = chance.choice(words)
        bit = chance.choice([bit for bit in range(32) if word >> bit & 1])
        matcher.accept_token(32 * at + bit)
        if time.process_time() - began > _SLOWEST_STEP_S:
            return f"it needs more than {_SLOWEST_STEP_S:g} s for one token"
        if matcher.is_terminated():
            return None
    return None


def _address_space() -> int:
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[0]) * resource.getpagesize()


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _read(commands: int) -> bytes:
    block = os.read(commands, 1 << 20)
    if not block:  # the engine is gone, and the trials with it
        os._exit(0)
    return block


def main() -> None:
    """Never returns."""
    _die_with_parent()
    commands, reports = os.dup(0), os.dup(1)
    os.dup2(2, 1)  # whatever a library prints
    read = b""
    while b"\n" not in read:
        read += _read(commands)
    line, _, unread = read.partition(b"\n")
    rules = TrialRules.model_validate_json(line)
    if os.getppid() == rules.parent:
        Trials(rules, commands, reports, unread=unread).serve()


if __name__ == "__main__":
    main()
