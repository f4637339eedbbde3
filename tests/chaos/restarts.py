"""`python -m tests.chaos restarts --count 100`: Redis restarts under load, and all consume again within seconds."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import replace

from tests.chaos.asking import raw
from tests.chaos.lab import Lab, open_lab
from tests.chaos.ledger import Injected
from tests.chaos.options import Options
from tests.chaos.oracle import Watcher
from tests.chaos.recovery import quantile
from tests.chaos.run import WARM_S, come_to_rest, finish, say

CONSUMING_S = 5.0


async def restarts(options: Options, count: int) -> bool:
    """Returns whether it consumed again within 5 s each time, and all promises were kept."""
    say(f"chaos: {count} restarts of Redis {options.redis} under load, seed {options.seed}")
    dice, times = random.Random(options.seed), []
    async with open_lab(replace(options, old_rev="-")) as lab:
        watcher = Watcher(lab)
        watching = asyncio.create_task(watcher.run())
        await asyncio.sleep(WARM_S)
        for number in range(count):
            times.append(await _restart(lab, dice, number))
            if number % 10 == 9:
                say(f"{number + 1:>5} restarts, slowest {max(times):.2f} s, {len(lab.ledger.asked):,} requests")
            await asyncio.sleep(dice.uniform(0.2, 1.0))
        await come_to_rest(lab)
        watching.cancel()
        kept = await finish(lab, watcher)
    late = sum(took > CONSUMING_S for took in times)
    say(
        f"consuming again after p50 {quantile(times, 0.5):.2f} s, p99 {quantile(times, 0.99):.2f} s, "
        f"max {max(times):.2f} s; later than {CONSUMING_S:g} s: {late}"
    )
    return kept and not late


async def _restart(lab: Lab, dice: random.Random, number: int) -> float:
    """Seconds from Redis answering again until a request pushed then is answered."""
    gently = lab.options.fsync != "always" or dice.random() < 0.5
    kind = "Redis SHUTDOWN and restart" if gently else "Redis kill -9 and restart"
    fault = Injected(kind, time.monotonic(), kills=False, everybody=True)
    lab.ledger.faults.append(fault)
    await lab.server.end(gently=gently)
    await asyncio.sleep(dice.uniform(0.0, 3.0))
    await lab.server.come_up()
    fault.ended_at = time.monotonic()
    request_id = f"after-restart-{number}"
    lab.ledger.sent(request_id, fault.ended_at)
    await lab.persist("LPUSH", lab.home(request_id).queue, raw(request_id))
    while not await lab.persist("EXISTS", lab.home(request_id).result(request_id)):
        if time.monotonic() - fault.ended_at > 60:
            return 60.0  # the oracle says that it is lost
        await asyncio.sleep(0.005)
    lab.ledger.heard(request_id, time.monotonic(), "")
    return time.monotonic() - fault.ended_at
