"""Faults of Redis itself: connections closed, everything held, scripts gone, restarts, no memory."""

from __future__ import annotations

import asyncio
import random
from functools import partial

from tests.chaos.faults import Fault, begins, is_over
from tests.chaos.lab import Lab
from tests.chaos.ledger import Injected


async def kill_clients(lab: Lab, dice: random.Random, injected: Injected, *, kinds: tuple[str, ...]) -> None:
    """CLIENT KILL of all connections of these kinds."""
    begins(injected)
    for kind in kinds:
        await lab.persist("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
    is_over(injected)


async def pause(lab: Lab, dice: random.Random, injected: Injected, *, what: str) -> None:
    """CLIENT PAUSE."""
    seconds = dice.uniform(0.2, 1.5)
    begins(injected)
    await lab.persist("CLIENT", "PAUSE", int(seconds * 1000), what)
    await asyncio.sleep(seconds)
    is_over(injected)


async def sleep(lab: Lab, dice: random.Random, injected: Injected) -> None:
    """Redis does nothing at all, as in the middle of a slow command."""
    begins(injected)
    await lab.persist("DEBUG", "SLEEP", round(dice.uniform(0.1, 1.0), 2))
    is_over(injected)


async def flush_scripts(lab: Lab, dice: random.Random, injected: Injected) -> None:
    """SCRIPT FLUSH."""
    begins(injected)
    await lab.persist("SCRIPT", "FLUSH")
    is_over(injected)


async def restart(lab: Lab, dice: random.Random, injected: Injected, *, gently: bool) -> None:
    """End Redis, leave it down for a moment, and bring it up again with its append-only file."""
    begins(injected)
    await lab.server.end(gently=gently)
    await asyncio.sleep(dice.choice((0.0, dice.uniform(0.1, 1.0))))
    await lab.server.come_up()
    is_over(injected)


async def fill(lab: Lab, dice: random.Random, injected: Injected) -> None:
    """maxmemory below what is used, for a while."""
    begins(injected)
    info = await lab.persist("INFO", "memory")
    await lab.persist("CONFIG", "SET", "maxmemory", int(info["used_memory"]) // 2)
    await asyncio.sleep(dice.uniform(0.5, 1.5))
    await lab.persist("CONFIG", "SET", "maxmemory", 0)
    is_over(injected)


def loses_nothing(lab: Lab) -> str:
    """kill -9 loses what was acknowledged unless every write is synced first; that loss is Redis's."""
    return "" if lab.options.fsync == "always" else "with appendfsync everysec Redis itself may lose a second"


FAULTS = [
    Fault("CLIENT KILL all", partial(kill_clients, kinds=("normal", "pubsub"))),
    Fault("CLIENT KILL normal", partial(kill_clients, kinds=("normal",))),
    Fault("CLIENT KILL pubsub", partial(kill_clients, kinds=("pubsub",))),
    Fault("CLIENT PAUSE WRITE", partial(pause, what="WRITE"), everybody=True),
    Fault("CLIENT PAUSE ALL", partial(pause, what="ALL"), everybody=True),
    Fault("DEBUG SLEEP", sleep, everybody=True),
    Fault("SCRIPT FLUSH", flush_scripts, weight=2),
    Fault("Redis kill -9 and restart", partial(restart, gently=False), weight=2, everybody=True, unfit=loses_nothing),
    Fault("Redis SHUTDOWN and restart", partial(restart, gently=True), everybody=True),
    Fault("Redis at maxmemory", fill, weight=2, everybody=True),
]
