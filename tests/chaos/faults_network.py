"""Faults of the network: connections cut, slow, mute or refused; one command or one reply lost."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Literal

from tests.chaos.faults import Fault, begins, is_over
from tests.chaos.lab import Lab
from tests.chaos.ledger import Injected
from tests.chaos.proxy import Link, Proxy, Trap, When
from tests.chaos.worker_process import ChaosWorker

SPRUNG_S = 10.0
GIVEN_UP_S = 20.0
"""A client finds out by itself that a connection is mute: after 5 s without a reply, 10 s where it only listens."""


async def cut_all(lab: Lab, dice: random.Random, injected: Injected) -> None:
    """Every connection breaks at once."""
    begins(injected)
    for proxy in lab.proxies:
        proxy.cut()
    is_over(injected)


async def refuse(lab: Lab, dice: random.Random, injected: Injected) -> None:
    """Every connection breaks, and no new one is made for a while."""
    begins(injected)
    for proxy in lab.proxies:
        proxy.refusing = True
        proxy.cut()
    await asyncio.sleep(dice.uniform(0.2, 1.2))
    for proxy in lab.proxies:
        proxy.refusing = False
    is_over(injected)


async def delay(lab: Lab, dice: random.Random, injected: Injected) -> None:
    """Every packet comes late."""
    begins(injected)
    for proxy in lab.proxies:
        proxy.delay_s = dice.uniform(0.01, 0.06)
    await asyncio.sleep(dice.uniform(0.5, 2.0))
    for proxy in lab.proxies:
        proxy.delay_s = 0.0
    is_over(injected)


async def swallow(lab: Lab, dice: random.Random, injected: Injected, *, whose: str) -> None:
    """All bytes of one side are swallowed for a while; then the connections break."""
    async with side(lab, dice, injected, whose) as proxy:
        links = proxy.silence()
        await asyncio.sleep(dice.uniform(0.3, 2.5))
        for link in links:
            link.cut()
        is_over(injected)


async def half_open(lab: Lab, dice: random.Random, injected: Injected, *, whose: str) -> None:
    """A connection stays open and mute until its own end gives it up: all of a worker's, one of the producers'."""
    async with side(lab, dice, injected, whose) as proxy:
        links = list(proxy.links)
        if whose == "producers":
            links = dice.sample(links, min(1, len(links)))
        for link in links:
            link.mute = True
        await given_up(lab, links)
        is_over(injected)


@asynccontextmanager
async def side(lab: Lab, dice: random.Random, injected: Injected, whose: str) -> AsyncIterator[Proxy]:
    """The producers' proxy, or that of some worker, whose requests are then hit."""
    if whose == "producers":
        begins(injected)
        yield lab.front
        return
    async with lab.fleet.victim(dice) as worker:
        injected.hit = await lab.held_by(worker)
        begins(injected)
        yield worker.proxy
        await worker.came_up()


async def given_up(lab: Lab, links: Sequence[Link]) -> None:
    """Wait until the clients have closed these mute connections. One that is idle in a pool nobody can find out."""
    began = time.monotonic()
    for link in links:
        await closed_by(link, began + GIVEN_UP_S)
        if link.unheard_since is not None:  # it may have been used only a moment ago
            await closed_by(link, link.unheard_since + GIVEN_UP_S)
            if not link.closed.is_set():
                lab.ledger.odd.append(f"a mute connection was not given up within {GIVEN_UP_S:.0f} s")
        link.cut()


async def closed_by(link: Link, latest: float) -> None:
    """Wait for its end, at most until this moment of the monotonic clock."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(link.closed.wait(), max(0.0, latest - time.monotonic()))


async def lose(lab: Lab, dice: random.Random, injected: Injected, *, command: str, when: When) -> None:
    """One call is lost before Redis hears of it, or its reply is lost after it ran; sometimes without a word."""
    trap = Trap(command, when, silent=dice.random() < 0.2)
    if command in ASKED:
        injected.everybody = trap.silent  # a client sends one call at a time, and finds out after 5 s
        await spring(lab, injected, lab.front, trap)
        return
    async with lab.fleet.victim(dice) as worker:
        provoke = PROVOKED.get(command)
        injected.hit = await lab.held_by(worker)
        await spring(lab, injected, worker.proxy, trap, worker=worker, provoke=provoke)
        if provoke == "stop":
            await worker.ended(timeout_s=GIVEN_UP_S + 10)
            await worker.start()
        await worker.came_up()


PROVOKED: dict[str, Literal["stop", "engine"]] = {"hand_back": "stop", "release": "engine"}
"""Scripts that a worker runs only when it is stopped, or when its engine dies."""


async def spring(
    lab: Lab,
    injected: Injected,
    proxy: Proxy,
    trap: Trap,
    *,
    worker: ChaosWorker | None = None,
    provoke: str | None = None,
) -> None:
    """Set the trap, bring about what springs it, and wait until it has and its victim knows."""
    begins(injected)
    proxy.traps.append(trap)
    if worker is not None and provoke == "stop":
        worker.signal(signal.SIGTERM)
    if worker is not None and provoke == "engine":
        worker.kill_engine()  # a release follows only if a batch was running
    try:
        await asyncio.wait_for(trap.sprung.wait(), SPRUNG_S)
    except TimeoutError:
        injected.note = "never came"
    else:
        begins(injected)
        if trap.silent and trap.victim is not None:
            await given_up(lab, [trap.victim])
    finally:
        if trap in proxy.traps:
            proxy.traps.remove(trap)
    is_over(injected)


ASKED = ("submit", "LPUSH", "GET")
"""What producers say; the rest is what workers say."""

LOST = (*ASKED, "claim", "deliver", "renew", "reclaim", "heartbeat", "stamp", "hand_back", "release")


def loses(command: str, what: str, when: When) -> Fault:
    """The fault of losing this command, or its reply."""
    return Fault(f"{command}{what} lost", partial(lose, command=command, when=when), kills=command not in ASKED)


FAULTS = [
    Fault("all connections cut", cut_all, weight=2),
    Fault("connections refused", refuse, everybody=True),
    Fault("packets late", delay, everybody=True),
    Fault("worker bytes swallowed", partial(swallow, whose="worker"), weight=2, kills=True),
    Fault("producer bytes swallowed", partial(swallow, whose="producers"), everybody=True),
    Fault("worker connections half open", partial(half_open, whose="worker"), kills=True),
    Fault("producer connection half open", partial(half_open, whose="producers"), everybody=True),
    *(loses(command, "", "before") for command in LOST),
    *(loses(command, " reply", "after") for command in LOST),
]
