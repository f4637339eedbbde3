"""Faults of engines: killed from outside, killed or hung by a request."""

from __future__ import annotations

import random
from functools import partial
from uuid import UUID

from tests.chaos.faults import Fault, begins, is_over
from tests.chaos.lab import Lab
from tests.chaos.ledger import Injected


async def kill_engine(lab: Lab, dice: random.Random, injected: Injected) -> None:
    """kill -9 to the engine's process, as the kernel does when memory is short."""
    async with lab.fleet.victim(dice) as worker:
        injected.hit = await lab.held_by(worker)
        begins(injected)
        worker.kill_engine()
        is_over(injected)
        await worker.came_up()


async def poison(lab: Lab, dice: random.Random, injected: Injected, *, fault: str) -> None:
    """A request that brings down whoever runs it, until it is convicted; those who rode with it come through."""
    begins(injected)
    await lab.poison(f"poison-{fault}-{UUID(int=dice.getrandbits(128))}", fault)
    is_over(injected)


FAULTS = [
    Fault("engine kill -9", kill_engine, weight=4, kills=True),
    Fault("poison: engine crashes", partial(poison, fault="crash"), kills=True),
    Fault("poison: engine exits", partial(poison, fault="exit"), kills=True),
    Fault("poison: engine hangs", partial(poison, fault="hang"), kills=True),
    Fault("poison: batch raises", partial(poison, fault="error"), kills=True),
    Fault("poison: row never told", partial(poison, fault="drop"), kills=True),
]
