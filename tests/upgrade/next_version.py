"""A version of the future, whose queues have layout 2: dead letters stand in a hash instead of a list.

python -m tests.upgrade.next_version worker            as busload-worker
python -m tests.upgrade.next_version migrate --yes     as busload migrate; a letter takes $LETTER_MS
"""

from __future__ import annotations

import asyncio
import os
import sys

from redis.asyncio import Redis

from busload.cli.app import app
from busload_shared import layout
from busload_shared.keys import Keys
from busload_worker.__main__ import main as work

MOVE = """
local letter = redis.call('LINDEX', KEYS[1], -1)
if not letter then return 0 end
redis.call('HSET', KEYS[2], redis.sha1hex(letter), letter)
redis.call('RPOP', KEYS[1])
return 1
"""


def letters_of(keys: Keys) -> str:
    """The new key."""
    return keys.dead.replace(":dead", ":letters")


async def move_letters(redis: Redis, keys: Keys) -> None:
    """One at a time: each is in one of the two places whenever it is killed."""
    for _ in range(await redis.llen(keys.dead)):
        await redis.eval(MOVE, 2, keys.dead, letters_of(keys))
        await asyncio.sleep(float(os.environ.get("LETTER_MS", "0")) / 1000)


STEP = layout.Step("dead letters move into a hash", move_letters)


def main() -> None:
    """Be that version."""
    layout.STEPS = (STEP,)
    layout.LEASE_S = 1.0
    if sys.argv[1] == "worker":
        del sys.argv[1]
        work()
    else:
        app(prog_name="busload")


if __name__ == "__main__":
    main()
