"""The real command in processes of its own: on a terminal, in a pipe, and interrupted."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from tests.redis_servers import Server

from .conftest import CommandLine

BUSLOAD = [sys.executable, "-m", "busload"]


class Terminal:
    """A command on a terminal of 80 by 24."""

    def __init__(self, *words: str, url: str, **environment: str) -> None:
        self._master, slave = pty.openpty()
        env = os.environ | {"BUSLOAD_REDIS_URL": url, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}
        self.process = subprocess.Popen(
            [*BUSLOAD, *words], stdin=slave, stdout=slave, stderr=slave, env=env | environment, start_new_session=True
        )
        os.close(slave)
        self.text = ""

    def until(self, pattern: str, *, timeout_s: float = 60) -> None:
        """Read until the pattern was printed."""
        give_up = time.monotonic() + timeout_s
        while not re.search(pattern, self.text):
            assert time.monotonic() < give_up, f"no {pattern!r} in {self.text[-2000:]!r}"
            assert self._read() or re.search(pattern, self.text), f"it ended: {self.text[-2000:]!r}"

    def press(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def ended(self) -> int:
        """Read to the end. Returns the exit code."""
        give_up = time.monotonic() + 60
        while self._read():
            assert time.monotonic() < give_up, f"it does not end: {self.text[-2000:]!r}"
        return self.process.wait(60)

    def interrupt(self) -> int:
        """Press Ctrl-C and wait for the end."""
        self.process.send_signal(signal.SIGINT)
        while self._read():
            pass
        return self.ended()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._master)

    def _read(self) -> bool:
        """What there is to read, after a second at the latest. False at the end."""
        if not select.select([self._master], [], [], 1.0)[0]:
            return True
        try:
            read = os.read(self._master, 65536)
        except OSError:  # the other side is closed
            return False
        self.text += read.decode("utf-8", "replace")
        return bool(read)


@pytest.fixture
def terminals(any_redis_url: str) -> Iterator[list[Terminal]]:
    opened: list[Terminal] = []
    yield opened
    for terminal in opened:
        terminal.close()


def test_top_is_live_and_q_leaves_the_terminal_as_it_was(any_redis_url: str, terminals: list[Terminal]) -> None:
    terminal = Terminal("top", "--interval-s", "0.1", url=any_redis_url)
    terminals.append(terminal)
    terminal.until(r"q leaves(?s:.)*q leaves")
    terminal.press(b"q")
    assert terminal.ended() == 0
    assert terminal.text.rstrip().endswith("\x1b[?1049l")
    assert "Traceback" not in terminal.text


def test_ctrl_c_leaves_a_wait_with_130_and_a_word(
    busload: CommandLine, any_redis_url: str, terminals: list[Terminal]
) -> None:
    busload.enqueue("a")
    terminal = Terminal("wait", "a", url=any_redis_url)
    terminals.append(terminal)
    terminal.until("0/1")
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.ended() == 130
    assert "interrupted; the requests go on" in terminal.text
    assert "Traceback" not in terminal.text
    assert busload("status", "a").out == "a waiting\n"


def test_ctrl_c_in_a_bench_cancels_what_is_out(
    busload: CommandLine, any_redis_url: str, terminals: list[Terminal]
) -> None:
    terminal = Terminal("bench", "--requests", "5", url=any_redis_url)
    terminals.append(terminal)
    terminal.until("0/5")
    while busload("queue", "--json").json[0]["waiting"] < 5:
        time.sleep(0.01)
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.ended() == 130
    assert busload("queue", "--json").json[0]["counters"]["cancelled"] == 5


def test_a_question_is_asked_on_a_terminal_and_no_is_heard(
    busload: CommandLine, any_redis_url: str, terminals: list[Terminal]
) -> None:
    busload.bury("a")
    terminal = Terminal("dead", "purge", "--all", url=any_redis_url)
    terminals.append(terminal)
    terminal.until("1 dead letter.*to be dropped")
    terminal.press(b"n\n")
    assert terminal.ended() == 1
    assert len(busload("dead", "list", "--json").json) == 1


def test_ctrl_c_at_a_question_does_nothing_and_ends(
    busload: CommandLine, any_redis_url: str, terminals: list[Terminal]
) -> None:
    busload.bury("a")
    terminal = Terminal("dead", "purge", "--all", url=any_redis_url)
    terminals.append(terminal)
    terminal.until("to be dropped")
    assert terminal.interrupt() == 130
    assert "interrupted" in terminal.text
    assert "Traceback" not in terminal.text
    assert len(busload("dead", "list", "--json").json) == 1


def test_top_outlives_a_redis_that_goes_away(any_server: Server, terminals: list[Terminal]) -> None:
    terminal = Terminal("top", "--interval-s", "0.1", url=any_server.url)
    terminals.append(terminal)
    terminal.until("q leaves")
    any_server.stop()
    terminal.until("Redis does not answer")
    any_server.start()
    terminal.text = ""
    terminal.until("q leaves")
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.ended() == 130
    assert "Traceback" not in terminal.text


def test_a_watched_queue_is_drawn_again_and_again(any_redis_url: str, terminals: list[Terminal]) -> None:
    terminal = Terminal("queue", "--watch", "--interval-s", "0.1", url=any_redis_url)
    terminals.append(terminal)
    terminal.until(r"dead letters(?s:.)*dead letters")
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.ended() == 130


@pytest.mark.parametrize(("environment", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_colours_are_for_terminals_that_want_them(
    any_redis_url: str, terminals: list[Terminal], environment: dict[str, str], coloured: bool
) -> None:
    terminal = Terminal("queue", url=any_redis_url, **environment)
    terminals.append(terminal)
    assert terminal.ended() == 0
    assert bool(re.search(r"\x1b\[[0-9;]*3[1-7]m", terminal.text)) == coloured


def test_a_pipe_that_closes_early_is_no_traceback(busload: CommandLine, any_redis_url: str) -> None:
    busload.bury(*(f"r{number}" for number in range(30)))
    command = f"{sys.executable} -m busload dead list --count 1000 --json | head -1"
    env = os.environ | {"BUSLOAD_REDIS_URL": any_redis_url}
    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=env, timeout=60, check=False)
    assert ended.stdout.count("\n") == 1
    assert "Traceback" not in ended.stderr
