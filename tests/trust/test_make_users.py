"""The file of users that Redis loads: made from the roles, with no password in it."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

import pytest
from ops.redis.make_users import TEMPLATES, acl_file, main, template_for, user_of
from redis import Redis
from redis.exceptions import NoPermissionError
from tests.conftest import missing
from tests.redis_servers import Servers
from tests.trust.guarded import QUEUE

from busload_shared import scripts

ROLES = ("producer", "analyst", "worker", "operator")
SECRET = "a-long-pa55word-of-32-characters"

ASKED_BY_NAME = {
    "ping", "select", "cluster|slots", "wait", "info", "script|load", "evalsha", "subscribe", "unsubscribe",
    "psubscribe", "punsubscribe", "publish", "blmove", "mget", "get", "exists", "ttl", "pttl", "strlen", "pexpire",
}  # fmt: skip
"""What programs ask themselves; the rest is asked by scripts."""


def made(tmp_path: Path, *arguments: str) -> str:
    out = tmp_path / "users.acl"
    main(["--out", str(out), *arguments])
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    return out.read_text(encoding="utf-8")


def test_passwords_are_made_and_shown_once_and_only_their_hash_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = made(tmp_path)
    shown = dict(line.split("redis://")[1].split("@")[0].split(":") for line in capsys.readouterr().out.splitlines())
    assert set(shown) == set(ROLES)
    for role, password in shown.items():
        assert len(password) >= 32
        assert password not in text
        assert f"user {role} on #{sha256(password.encode()).hexdigest()} " in text
    assert len(set(shown.values())) == len(ROLES)


def test_a_password_that_was_given_is_not_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_FRONT_PASSWORD", SECRET)
    text = made(tmp_path, "shop-front=producer@busload:shop", "gpu=worker@busload:shop", "admin=operator")
    said = capsys.readouterr()
    assert SECRET not in said.out + said.err + text
    assert sha256(SECRET.encode()).hexdigest() in text
    assert [line.split()[1] for line in text.splitlines()] == ["default", "shop-front", "gpu", "admin"]
    assert "busload:default" not in text


def test_a_second_run_replaces_the_file(tmp_path: Path) -> None:
    assert made(tmp_path) != made(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["users.acl"]


@pytest.mark.parametrize(
    ("user", "says"),
    [
        ("shop", "is no role: write NAME=ROLE"),
        ("default=operator", "not `default`"),
        ("a b=worker", "a user's name"),
        ("w=worker@a{b}", "a queue's name"),
        ("w=worker@a)b", "a queue's name"),
    ],
)
def test_what_is_wrong_is_said(user: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        user_of(user, QUEUE, {})


def test_a_short_password_is_refused_and_not_shown() -> None:
    with pytest.raises(ValueError, match="GPU_PASSWORD is too short") as refused:
        user_of("gpu=worker", QUEUE, {"GPU_PASSWORD": "hunter2"})
    assert "hunter2" not in str(refused.value)


def test_nobody_is_named_twice(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        main(["--out", str(tmp_path / "u"), "a=worker", "a=producer"])


@pytest.mark.parametrize("kind", TEMPLATES)
def test_a_queues_name_is_no_pattern(kind: str, redis_servers: Servers) -> None:
    version = {"7": "7.0", "6": "6.2"}[kind]
    if version not in redis_servers:
        missing(f"redis-server {version}", "see tests/redis_servers.py")
    user = user_of("p=producer@a*[b]?c\\d", QUEUE, {})
    line = acl_file([user], template_for(kind)).splitlines()[1]
    server = redis_servers.get(version)
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", *rules(line))
        try:
            with Redis(port=server.port, username="p", password=user.password, protocol=2) as own:
                assert own.lpush("a*[b]?c\\d", "x") == 1
                with pytest.raises(NoPermissionError):
                    own.lpush("aXb1c\\d", "x")
        finally:
            client.execute_command("ACL", "DELUSER", "p")


def rules(line: str) -> list[str]:
    """A line of the file as words, what is in brackets as one."""
    words: list[str] = []
    for word in line.split()[1:]:
        if words and words[-1].startswith("(") and not words[-1].endswith(")"):
            words[-1] += f" {word}"
        else:
            words.append(word)
    return words


def commands_of(names: Iterable[str]) -> set[str]:
    """The commands that stand in these scripts."""
    text = "".join(map(scripts.source, names))
    return {name.lower() for name in re.findall(r"redis\.p?call(?:\(|, )'(\w+)'", text)}


def granted(role: str, kind: str) -> set[str]:
    """The commands that a role is given, each by its name."""
    line = acl_file([user_of(role, QUEUE, {})], template_for(kind)).splitlines()[1]
    assert "+@" not in line
    return {word.lstrip("(")[1:] for word in line.split() if word.lstrip("(").startswith("+")}


@pytest.mark.parametrize("kind", TEMPLATES)
@pytest.mark.parametrize("role", ["producer", "analyst", "worker"])
def test_no_role_has_more_than_what_some_program_uses(kind: str, role: str) -> None:
    assert granted(role, kind) - commands_of(scripts.names()) - ASKED_BY_NAME == set()


@pytest.mark.parametrize("kind", TEMPLATES)
def test_a_worker_may_do_all_that_its_scripts_do(kind: str) -> None:
    """A command that a script needs once in a blue moon is not missed on that day."""
    its = set(scripts.names()) - {"submit", "status", "cancel", "queue_info", "redrive"}
    assert commands_of(its) - granted("worker", kind) == set()
