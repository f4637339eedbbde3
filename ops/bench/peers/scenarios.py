"""What the client does on each server: closed loops and open ones, on a handler that is free and on one that is not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import figures
from .serving import Work

FREE, COSTLY = Work(), Work(base_ms=20, item_ms=1)
LIMIT = figures.limit_per_s(batch=COSTLY.batch, base_ms=COSTLY.base_ms, item_ms=COSTLY.item_ms)


@dataclass(frozen=True)
class Scenario:
    """One job of the client on a server with this work."""

    name: str
    work: Work
    job: dict[str, Any]
    limit: float | None = None


def scenarios(seconds: float, seed: int) -> list[Scenario]:
    """Closed loops, then open ones; an open loop runs longer, as it needs its hundredth part."""
    spun = {"kind": "closed", "seconds": seconds, "warm_s": 1.0}
    drawn = {"kind": "open", "seed": seed, "warm_s": 2.0}
    return [
        *(Scenario(f"closed {n}, 0 ms", FREE, spun | {"outstanding": n}) for n in (64, 256)),
        Scenario("5/s, 0 ms", FREE, drawn | {"rate": 5.0, "spread": 0.2, "seconds": seconds * 4}),
        *(Scenario(f"closed {n}, 20+n ms", COSTLY, spun | {"outstanding": n}, LIMIT) for n in (64, 256)),
        *(
            Scenario(f"{name}, 20+n ms", COSTLY, drawn | {"rate": LIMIT * share, "spread": 1, "seconds": seconds * 4})
            for name, share in (("half", 0.5), ("nine tenths", 0.9))
        ),
    ]


def chosen(plan: list[Scenario], begins: list[str]) -> list[Scenario]:
    """Those whose name begins with one of these; all, if there is none."""
    return [one for one in plan if not begins or one.name.startswith(tuple(begins))]
