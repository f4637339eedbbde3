"""An element of the queue's lists: a short header that scripts and workers read, then the producer's JSON."""

from __future__ import annotations

import re
from dataclasses import dataclass

_HEADER = re.compile(rb"@(\d+\.\d+) (\d+) (\d+) (\S*) (\S*) ")


@dataclass(frozen=True, slots=True)
class Element:
    """One stamped request.

    `arrival_ms` is Unix ms on the Redis clock. `attempts` counts the batches it died in, `lone_deaths` those in
    which it was alone. `reply` is the submitting client's token, `id` what the header says; both may be empty.
    """

    arrival_ms: float
    attempts: int
    lone_deaths: int
    reply: str
    id: str
    payload: bytes

    @classmethod
    def parse(cls, element: bytes, *, latest_ms: float) -> Element:
        """Read a claimed element. A stamp later than `latest_ms` came from a wrong clock, and is set to that.

        Every claimed element has a header; one without is taken as just come.
        """
        found = _HEADER.match(element[:2048])
        if found is None:
            return cls(latest_ms, 0, 0, "", "", element)
        arrival, attempts, lone, reply, name = found.groups()
        return cls(
            min(float(arrival), latest_ms),
            int(attempts),
            int(lone),
            reply.decode("utf-8", "replace"),
            name.decode("utf-8", "replace"),
            element[found.end() :],
        )
