"""Faults of worker processes: killed, frozen, stopped, of another version."""

from __future__ import annotations

import asyncio
import random
import signal

from tests.chaos.faults import Fault, begins, is_over
from tests.chaos.lab import Lab
from tests.chaos.ledger import Injected
from tests.chaos.worker_process import ChaosWorker

DRAINED_S = 30.0


async def kill(lab: Lab, dice: random.Random, injected: Injected) -> None:
    """kill -9, and another process in its place."""
    async with lab.fleet.victim(dice) as worker:
        injected.hit = await lab.held_by(worker)
        begins(injected)
        worker.signal(signal.SIGKILL)
        is_over(injected)
        await worker.ended(timeout_s=10)
        await worker.start()
        await worker.came_up()


async def freeze(lab: Lab, dice: random.Random, injected: Injected) -> None:
    """SIGSTOP for longer than the lease, then SIGCONT: it believes that it still holds its batch."""
    async with lab.fleet.victim(dice) as worker:
        injected.hit = await lab.held_by(worker)
        begins(injected)
        worker.signal(signal.SIGSTOP)
        await asyncio.sleep(lab.options.lease_s * dice.uniform(1.2, 1.8))
        worker.signal(signal.SIGCONT)
        is_over(injected)
        await worker.came_up()


async def stop(lab: Lab, dice: random.Random, injected: Injected) -> None:
    """SIGTERM, and another process in its place."""
    async with lab.fleet.victim(dice) as worker:
        await replace(lab, worker, injected)


async def swap_version(lab: Lab, dice: random.Random, injected: Injected) -> None:
    """One worker is replaced by one of the older version, or back: two versions serve one queue."""
    only = lab.fleet.workers[-1]
    async with lab.fleet.victim(dice, only=only) as worker:
        worker.code = None if worker.code else lab.old_code
        injected.note = "to the older" if worker.code else "to this one"
        await replace(lab, worker, injected)


async def replace(lab: Lab, worker: ChaosWorker, injected: Injected) -> None:
    """Drain one and start another in its place."""
    begins(injected)
    worker.signal(signal.SIGTERM)
    code = await worker.ended(timeout_s=DRAINED_S)
    is_over(injected)
    if code != 0:
        lab.ledger.odd.append(f"{worker.name} ended with {code} on SIGTERM:\n{worker.last_words()}")
        await worker.close()
    await worker.start()
    await worker.came_up()


FAULTS = [
    Fault("worker kill -9", kill, weight=4, kills=True),
    Fault("worker frozen past its lease", freeze, weight=3, kills=True),
    Fault("worker SIGTERM", stop, weight=2),
    Fault(
        "worker of another version",
        swap_version,
        unfit=lambda lab: lab.why_no_old,
    ),
]
