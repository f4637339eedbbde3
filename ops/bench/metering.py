"""What counting costs a worker: ns for each batch, and the time of a scrape.

python -m ops.bench.metering --rows 32
"""

from __future__ import annotations

import argparse
import timeit
from collections.abc import Callable

from prometheus_client import generate_latest

from busload_shared.element import Element
from busload_shared.replies import Claim, Delivery, Seat
from busload_worker.engines.protocol import BatchDone
from busload_worker.metrics import registry_of
from busload_worker.metrics_meter import Meter
from busload_worker.settings import Settings
from busload_worker.vitals import Vitals

REQUEST = b'{"id":"0","prompt":"Hello"}'


def steps(meter: Meter, rows: int) -> dict[str, Callable[[], object]]:
    """What a worker does for its meter with each batch."""
    seats = tuple(Seat(i, Element.parse(REQUEST, latest_ms=1e12)._replace(arrival_ms=1e12), False) for i in range(rows))
    claim = Claim("b", 1e12 + 50, 1e12 + 40, 0, "full", seats)
    answers = [Delivery(i, str(i), "succeeded", "", b"{}") for i in range(rows)]
    written = [True] * rows
    done = BatchDone(ran_ms=100.0, prompt_tokens=1000, completion_tokens=2000)
    held = [0.01 * i for i in range(rows)]
    return {
        "claimed": lambda: meter.claimed(claim, most=rows),
        "busy": lambda: meter.engine("busy"),
        "ran": lambda: meter.ran(done, weight=5000),
        "delivered": lambda: meter.delivered(answers, written),
        "deliver time": lambda: meter.deliver_s.add(0.001),
        "arrived": lambda: meter.engine("idle"),
        "held (release = batch)": lambda: meter.held_s.add_all(held),
    }


def main() -> None:
    """Print a line for each step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--times", type=int, default=20_000)
    chosen = parser.parse_args()
    vitals, total = Vitals(), 0.0
    for name, step in steps(vitals.meter, chosen.rows).items():
        ns = min(timeit.repeat(step, number=chosen.times, repeat=5)) / chosen.times * 1e9
        total += ns
        print(f"{name:<24}{ns:>9.0f} ns a batch of {chosen.rows}")
    print(f"{'all':<24}{total:>9.0f} ns a batch, {total / chosen.rows:.0f} ns a request")
    registry = registry_of(vitals, Settings(engine="fake"))
    ms = min(timeit.repeat(lambda: generate_latest(registry), number=20, repeat=5)) / 20 * 1e3
    print(f"{'scrape':<24}{ms:>9.2f} ms")


if __name__ == "__main__":
    main()
