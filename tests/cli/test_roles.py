"""What each role of `ops/redis/users.acl` can do with the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.conftest import missing
from tests.queue.steps import board, bury, deliver, submit
from tests.redis_servers import Servers
from tests.trust.guarded import Guarded, guarded_by

from busload_shared.queue import Queue
from busload_shared.scripts import load_all

from .conftest import CommandLine


@pytest.fixture(scope="module")
def guarded(redis_servers: Servers) -> Iterator[Guarded]:
    version = redis_servers.first()
    if version is None:
        missing("redis-server", "apt-get install redis-server")
    with guarded_by(redis_servers, version) as server:
        yield server


async def _an_answer_and_a_letter(queue: Queue) -> None:
    await load_all(queue.redis)
    await submit(queue, "done")
    await deliver(queue, await board(queue, "b1"))
    await submit(queue, "dead")
    await bury(queue, await board(queue, "b2"))
    await submit(queue, "waits")


@pytest.fixture
def as_role(guarded: Guarded) -> Callable[[str], CommandLine]:
    guarded.reset()
    CommandLine(guarded.url_for("operator")).on_queue(_an_answer_and_a_letter)
    return lambda role: CommandLine(guarded.url_for(role))


ONCE = ["top", "--once", "--interval-s", "0.1"]
ALLOWED = [
    ("producer", ["submit", "Hello"], 0),
    ("producer", ["result", "done"], 0),
    ("producer", ["wait", "done"], 0),
    ("producer", ["status", "waits"], 0),
    ("producer", ["cancel", "waits"], 0),
    ("producer", ["queue"], 0),
    ("producer", ONCE, 0),
    ("producer", ["drain", "--timeout-s", "0"], 1),
    ("producer", ["dead", "list"], 3),
    ("analyst", ["result", "done"], 0),
    ("analyst", ["wait", "done", "--poll"], 0),
    ("analyst", ["status", "done"], 0),
    ("analyst", ["results", "done"], 0),
    ("analyst", ["result", "waits"], 3),
    ("analyst", ["wait", "done"], 3),
    ("analyst", ["queue"], 3),
    ("analyst", ONCE, 3),
    ("analyst", ["submit", "Hello"], 3),
    ("operator", ["queue"], 0),
    ("operator", ONCE, 0),
    ("operator", ["status", "waits"], 0),
    ("operator", ["result", "done"], 0),
    ("operator", ["dead", "show", "dead"], 0),
    ("operator", ["dead", "redrive", "dead"], 0),
    ("operator", ["dead", "purge", "--all", "--yes"], 0),
]


@pytest.mark.parametrize(("role", "words", "code"), ALLOWED, ids=lambda value: str(value))
def test_a_role_may_what_the_page_says(
    as_role: Callable[[str], CommandLine], role: str, words: list[str], code: int
) -> None:
    ended = as_role(role)(*words)
    assert ended.code == code, ended.err
    if code == 3:
        assert "this Redis user may not do that: widen its ACL" in ended.err
    assert "pa55" not in ended.out + ended.err
