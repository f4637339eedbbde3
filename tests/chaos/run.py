"""One run: start all, break things for a while, let all come to rest, judge."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from tests.chaos.lab import Lab, open_lab
from tests.chaos.options import Options
from tests.chaos.oracle import Watcher, judge
from tests.chaos.recovery import recoveries
from tests.chaos.report import summary, table
from tests.chaos.schedule import Injector, fitting

WARM_S = 1.0
TOLD_EVERY_S = 5.0
RESTS_S = 60.0
"""Within this all must be answered once the last fault is over."""


async def run(options: Options) -> bool:
    """Returns whether all promises were kept."""
    say(f"chaos: seed {options.seed}, Redis {options.redis}, {options.workers} workers; repeat with")
    say(f"  {options.again()}")
    async with open_lab(options) as lab:
        faults, skipped = fitting(lab)
        for line in skipped:
            say(f"skipped: {line}")
        await asyncio.sleep(WARM_S)
        watcher = Watcher(lab)
        watching = asyncio.create_task(watcher.run())
        await break_things(lab, Injector(lab, faults))
        say("no more faults; waiting for the last answers")
        await come_to_rest(lab)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        return await finish(lab, watcher)


async def finish(lab: Lab, watcher: Watcher) -> bool:
    """Judge, tell, and return whether all promises were kept."""
    verdict = await judge(lab, watcher)
    mets = recoveries(lab.ledger)
    lines, kept = summary(lab.options, lab.ledger, mets, verdict)
    for line in (*table(mets, verdict), *lines):
        say(line)
    if not kept:
        for worker in lab.fleet.workers:
            say(f"--- {worker.name}\n{worker.last_words()}")
        if verdict.lost:
            lab.server.kept = True
            say(f"what Redis wrote down is kept in {lab.server.folder}")
        say(f"BROKEN: seed {lab.options.seed}; repeat with\n  {lab.options.again()}")
    return kept


async def break_things(lab: Lab, injector: Injector) -> None:
    """Until the time is over and enough was sent, or enough was broken."""
    until = asyncio.Event()
    injecting = asyncio.create_task(injector.run(until))
    began = told = time.monotonic()
    while not injecting.done():
        await asyncio.sleep(0.1)
        now, ledger, options = time.monotonic(), lab.ledger, lab.options
        if now - told >= TOLD_EVERY_S:
            told = now
            say(
                f"{now - began:7.0f} s  {len(ledger.faults):>6,} faults  {len(ledger.asked):>8,} requests  "
                f"{ledger.open:>5,} outstanding  {len(ledger.odd)} complaints"
            )
        enough = options.most_faults and len(ledger.faults) >= options.most_faults
        if enough or (now - began >= options.seconds and len(ledger.asked) >= options.requests):
            until.set()
            for proxy in lab.proxies:
                proxy.cut_mute()
    await injecting


async def come_to_rest(lab: Lab) -> None:
    """Everything is well again; every producer has heard all its answers, or time is up."""
    lab.calm()
    lab.fleet.clock.step(0)
    lab.clock.step(0)
    await lab.fleet.all_up()
    for load in lab.loads:
        load.stop()
    waits: Sequence[asyncio.Task[bool]] = [asyncio.create_task(load.ended.wait()) for load in lab.loads]
    _, late = await asyncio.wait(waits, timeout=RESTS_S)
    for wait in late:
        wait.cancel()
    if late:
        for load in lab.loads:
            load.tell()
        ids = [asked.id for asked in lab.ledger.asked.values() if asked.heard is None]
        places = await lab.queue().status(ids)
        told = ", ".join(f"{name} {place.state}" for name, place in zip(ids[:8], places, strict=False))
        lab.ledger.odd.append(f"{len(ids)} not heard of {RESTS_S:.0f} s after the last fault; Redis has {told}")


def say(line: str) -> None:
    """One line of the report, at once."""
    print(line, flush=True)
