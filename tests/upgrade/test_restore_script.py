"""`ops/redis/restore.sh` on each version of Redis: what it makes of a backup is what Redis starts with."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.conftest import missing
from tests.redis_servers import WANTED, Server, Servers
from tests.upgrade.backups import LOG, dumped, restored, run_script, saved

Start = Callable[[], Server]


@pytest.fixture(params=list(WANTED))
def start_logging(request: pytest.FixtureRequest, redis_servers: Servers) -> Iterator[Start]:
    """Start servers of one version that keep a log."""
    version, started = request.param, []
    if version not in redis_servers:
        missing(f"redis-server {version}", WANTED[version])

    def start() -> Server:
        started.append(Server(redis_servers.binaries[version], version, LOG))
        return started[-1]

    yield start
    for server in started:
        server.remove()


@pytest.mark.parametrize("back_up", [dumped, saved])
def test_a_backup_comes_back_with_its_times_to_live_and_goes_on_in_the_log(
    start_logging: Start, tmp_path: Path, back_up: Callable[[Server, Path], Path]
) -> None:
    before = start_logging()
    before.start()
    with before.client() as redis:
        redis.rpush("list", "a", "b")
        redis.set("short", 1, px=1)
        redis.set("long", 1, px=100_000)
        backup = back_up(before, tmp_path / "backup.rdb")
        redis.set("later", 1)
        left_ms = redis.pttl("long")
    after = restored(before, before.binary, backup)
    try:
        with after.client() as redis:
            assert sorted(redis.keys("*")) == [b"list", b"long"]
            assert 0 < redis.pttl("long") <= left_ms
            redis.rpush("list", "c")
        after.restart()  # kill -9, and no save: what comes back is in the log
        with after.client() as redis:
            assert redis.lrange("list", 0, -1) == [b"a", b"b", b"c"]
    finally:
        after.remove()


def test_a_redis_with_a_log_does_not_look_at_a_dump(start_logging: Start, tmp_path: Path) -> None:
    """Why there is a script at all."""
    before, after = start_logging(), start_logging()
    before.start()
    with before.client() as redis:
        redis.set("a", 1)
        shutil.copy(dumped(before, tmp_path / "backup.rdb"), after.folder / "dump.rdb")
    after.start()
    with after.client() as redis:
        assert redis.keys("*") == []


def test_data_that_is_there_is_moved_aside_and_not_lost(start_logging: Start, tmp_path: Path) -> None:
    before = start_logging()
    before.start()
    with before.client() as redis:
        redis.set("a", 1)
        backup = saved(before, tmp_path / "backup.rdb")  # its dump stays there, beside the log
        redis.set("later", 1)
    before.stop()
    done = run_script(before.binary, backup, before.folder)
    assert done.returncode == 0, done.stderr
    before.start()
    with before.client() as redis:
        assert redis.keys("*") == [b"a"]
    before.stop()
    (aside,) = before.folder.glob("before-restore-*")
    assert f"is in {aside} now" in done.stdout
    again = start_logging()
    shutil.copytree(aside, again.folder, dirs_exist_ok=True)
    again.start()
    with again.client() as redis:
        assert sorted(redis.keys("*")) == [b"a", b"later"]


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"no backup", "is no RDB file"), (b"REDIS0009\xfa\x09redis", "Redis cannot read it"), (b"", "is no RDB file")],
)
def test_a_broken_backup_is_told_and_leaves_nothing_running(
    start_logging: Start, tmp_path: Path, content: bytes, said: str
) -> None:
    server, backup = start_logging(), tmp_path / "backup.rdb"
    backup.write_bytes(content)
    done = run_script(server.binary, backup, server.folder)
    assert (done.returncode, said in done.stderr) == (1, True), done.stderr
    assert not (server.folder / "restore.sock").exists()
