"""Write the file of users that Redis loads with `aclfile`, from the roles in users.acl.

python ops/redis/make_users.py --out users.acl                       producer, analyst, worker and operator
python ops/redis/make_users.py --out users.acl shop=producer gpu=worker admin=operator
python ops/redis/make_users.py --out users.acl shop=producer@busload:shop gpu=worker@busload:shop
python ops/redis/make_users.py --out users.acl --partitions          queues whose partitions are called QUEUE/1, …

A user's password is taken from the environment (SHOP_PASSWORD for shop), or made. Those that were made are printed
once, as URLs; the file holds only their SHA-256, which cannot be turned back, since a made password is random.
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from string import Template

TEMPLATES = {"7": "users.acl", "6": "users-6.acl"}
ROLES = ("producer", "analyst", "worker", "operator")
SHORTEST = 16
"""Redis hashes a password once and without salt: a short one is found by trying."""


@dataclass(frozen=True, slots=True)
class User:
    """A user of Redis in one role on one queue. `made` when nobody else knows the password yet."""

    name: str
    role: str
    queue: str
    password: str
    made: bool


def user_of(text: str, queue: str, environment: Mapping[str, str]) -> User:
    """The user that `NAME=ROLE@QUEUE` names; role and queue may be left out. Raises ValueError with what to write."""
    who, _, own_queue = text.partition("@")
    name, _, role = who.partition("=")
    role, queue = role or name, own_queue or queue
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name) or name == "default":
        raise ValueError(f"{name!r}: a user's name is letters, digits, - and _, and not `default`")
    if role not in ROLES:
        raise ValueError(f"{role!r} is no role: write NAME=ROLE with one of {', '.join(ROLES)}")
    if not re.fullmatch(r"[^\s{}()]{1,128}", queue):
        raise ValueError(f"{queue!r}: a queue's name has no white space, and here no brackets")
    variable = f"{name.upper().replace('-', '_')}_PASSWORD"
    given = environment.get(variable)
    if given is not None and len(given) < SHORTEST:
        raise ValueError(f"{variable} is too short: give {SHORTEST} characters or more, or unset it to have one made")
    return User(name, role, queue, given or secrets.token_urlsafe(32), made=given is None)


def acl_file(users: Sequence[User], template: str, *, partitions: bool = False) -> str:
    """The text that Redis loads: a line for the default user, and one for each of `users`. With `partitions` they may
    do the same on whatever is called like their queue with a slash behind."""
    roles = _roles(_with_partitions(template) if partitions else template)
    lines = [f"user default {roles['default']}"]
    for user in users:
        digest = sha256(user.password.encode()).hexdigest()
        queue = re.sub(r"([*?\[\]\\])", r"\\\1", user.queue)  # a name, not a pattern
        lines.append(f"user {user.name} " + Template(roles[user.role]).substitute(SHA256=digest, QUEUE=queue))
    return "\n".join(lines) + "\n"


def _with_partitions(template: str) -> str:
    """Each rule on a key or a channel of the queue a second time, for the queue's partitions."""
    return re.sub(r"((?:%[RW]+)?[~&][^\s()$]*)\$QUEUE([^\s()]*)", r"\1$QUEUE\2 \1$QUEUE/*\2", template)


def _roles(template: str) -> dict[str, str]:
    """Each role's rules in one line: Redis reads neither comments nor rules over several lines."""
    words = " ".join(line for line in template.splitlines() if not line.lstrip().startswith("#")).split()
    starts = [at for at, word in enumerate(words) if word == "user"]
    return {
        words[start + 1]: " ".join(words[start + 2 : end])
        for start, end in zip(starts, [*starts[1:], len(words)], strict=True)
    }


def template_for(redis: str) -> str:
    """The roles for Redis 7 (and newer) or 6 (6.2)."""
    return Path(__file__).with_name(TEMPLATES[redis]).read_text(encoding="utf-8")


def write(path: Path, text: str) -> None:
    """Write a file that only its owner reads; what stood there before is replaced in one step."""
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    part.replace(path)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the file, print the passwords that were made."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("users", nargs="*", default=ROLES, metavar="NAME=ROLE@QUEUE", help="one for each program")
    parser.add_argument("--queue", default="busload:default", help="queue of those who name none")
    parser.add_argument("--partitions", action="store_true", help="the queues are spread over several lists")
    parser.add_argument("--redis", choices=TEMPLATES, default="7", help="6 for Redis 6.2, 7 for all newer ones")
    parser.add_argument("--out", type=Path, required=True, help="file to write")
    given = parser.parse_args(arguments)
    try:
        users = [user_of(text, given.queue, os.environ) for text in given.users]
    except ValueError as error:
        parser.error(str(error))
    if len({user.name for user in users}) < len(users):
        parser.error("a user is named twice")
    write(given.out, acl_file(users, template_for(given.redis), partitions=given.partitions))
    print(f"{given.out}: {len(users)} users; `aclfile` in redis.conf or `redis-cli ACL LOAD` loads it", file=sys.stderr)
    for user in users:
        if user.made:
            print(f"{user.role} of {user.queue}: redis://{user.name}:{user.password}@HOST:6379/0")


if __name__ == "__main__":
    main()
