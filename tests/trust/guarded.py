"""A Redis with the project's users: nobody gets in without a password, and each role does only its own work."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis
from ops.redis.make_users import acl_file, template_for, user_of
from tests.conftest import missing
from tests.redis_servers import WANTED, Server, Servers

ROLES = ("producer", "analyst", "worker", "operator")
QUEUE = "busload:default"

PASSWORD = "pa55-word:of/{role}@%"
"""With what a URL must write as %XX."""


def password(role: str) -> str:
    """The password of the user who is called like his role."""
    return PASSWORD.format(role=role)


class Guarded(Server):
    """A server of our own with the users of `ops/redis`. Tests look after it as the operator."""

    def __init__(self, binary: Path, version: str) -> None:
        super().__init__(binary, version)
        self.is_old = version.startswith("6")
        environment = {f"{role.upper()}_PASSWORD": password(role) for role in ROLES}
        users = [user_of(role, QUEUE, environment) for role in ROLES]
        path = self.folder / "users.acl"
        path.write_text(acl_file(users, template_for("6" if self.is_old else "7")), encoding="utf-8")
        self._more["aclfile"] = str(path)

    def client(self) -> redis.Redis:
        return self.as_user("operator")

    def as_user(self, role: str) -> redis.Redis:
        """A plain synchronous client; close it."""
        return redis.Redis(port=self.port, username=role, password=password(role), socket_timeout=20, protocol=2)

    def url_for(self, role: str) -> str:
        """The URL that this user's program is given."""
        secret = "".join(f"%{ord(c):02X}" if not c.isalnum() else c for c in password(role))
        return self.url.replace("redis://", f"redis://{role}:{secret}@")

    def reset(self) -> None:
        super().reset()
        with self.client() as client:
            client.acl_log_reset()

    def refusals(self) -> set[str]:
        """What was refused since the last reset, as `user: command, key or channel`. redis-py tells its name at each
        connect, which is no work of ours."""
        with self.client() as client:
            log = client.execute_command("ACL", "LOG", "128")
        entries = [entry if isinstance(entry, dict) else _pairs(entry) for entry in log]
        told = {f"{_text(entry, 'username')}: {_text(entry, 'object')}" for entry in entries}
        return {line for line in told if not re.search(r": client(\|setinfo)?$", line)}


@contextmanager
def guarded_by(servers: Servers, version: str) -> Iterator[Guarded]:
    """One of this version, running, for as long as the block lasts."""
    if version not in servers:
        missing(f"redis-server {version}", WANTED[version])
    server = Guarded(servers.binaries[version], version)
    server.start()
    yield server
    server.remove()


def _pairs(entry: list[bytes]) -> dict[bytes, bytes]:
    return dict(zip(entry[::2], entry[1::2], strict=True))


def _text(entry: dict[object, object], name: str) -> str:
    value = entry.get(name, entry.get(name.encode()))
    return value.decode() if isinstance(value, bytes) else str(value)
