"""An element of the queue's lists: a short header that scripts and workers read, then the producer's JSON."""

from __future__ import annotations

from typing import NamedTuple


class Element(NamedTuple):
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

        The claim gave every element a header that a script has checked; one without is taken as just come.
        """
        try:
            arrival, attempts, lone, reply, name, payload = element.split(b" ", 5)
            stamp = min(float(arrival.removeprefix(b"@")), latest_ms)
            reader, own = reply.decode("utf-8", "replace"), name.decode("utf-8", "replace")
            return cls(stamp, int(attempts), int(lone), reader, own, payload)
        except ValueError:
            return cls(latest_ms, 0, 0, "", "", element)
