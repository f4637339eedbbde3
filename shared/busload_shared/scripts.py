"""The Lua scripts: one operation a file, what they share under lua/lib; and how they get to Redis."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from hashlib import sha1
from pathlib import Path
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import NoPermissionError, NoScriptError

from .lines import Lines

FOLDER = Path(__file__).with_name("lua")


@cache
def source(name: str) -> str:
    """The full text of script `name`: the libraries its first line includes, then itself."""
    text = (FOLDER / f"{name}.lua").read_text(encoding="utf-8")
    include = re.match(r"-- include: (.+)\n", text)
    parts = include.group(1).split() if include else []
    return "\n".join([(FOLDER / "lib" / f"{part}.lua").read_text(encoding="utf-8") for part in parts] + [text])


def names() -> list[str]:
    """Every script there is."""
    return sorted(path.stem for path in FOLDER.glob("*.lua"))


async def load_all(redis: Redis) -> None:
    """Load every script. Redis forgets them at a restart and a failover."""
    async with redis.pipeline(transaction=False) as loads:
        for name in names():
            loads.script_load(source(name))
        await loads.execute()


class Script:
    """One script on one Redis, called by its SHA1.

    When Redis does not hold it, all are loaded, for those too who may not load any: workers run only some of the
    scripts. Such a caller gets NoScriptError, which passes: each worker loads them at its start, and within half a
    second after a restart of Redis.
    """

    def __init__(self, redis: Redis, lines: Lines, name: str) -> None:
        self._redis = redis
        self._lines = lines
        self._sha = sha1(source(name).encode(), usedforsecurity=False).hexdigest()

    async def __call__(self, *, keys: Sequence[str], args: Iterable[Any]) -> Any:
        """Run it."""
        call = (self._sha, len(keys), *keys, *args)
        try:
            return await self._lines.evalsha(*call)
        except NoScriptError as missing:
            try:
                await load_all(self._redis)
            except NoPermissionError:
                raise missing from None
        return await self._lines.evalsha(*call)


def callables(redis: Redis) -> dict[str, Script]:
    """Every script by its name."""
    lines = Lines(redis)
    return {name: Script(redis, lines, name) for name in names()}
