"""What partitions cost, by simulation: one queue against several, with the order in which real workers look at them.

python ops/bench/partitions.py                 a few minutes
python ops/bench/partitions.py --quick         small fleets only

Requests come by chance (Poisson) at a share of the capacity, and belong to partitions by chance. No wait: an idle
worker that attends to a partition claims whoever comes there. Which partitions a worker attends to, and which it looks
at first, are the worker's own rules (`Turns`, `attended`). Redis costs nothing here.
"""

from __future__ import annotations

import argparse
import heapq
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from random import Random

import lab
import waits

from busload_shared.partitions.turns import Turns, attended
from busload_worker.simulation import Lognormal
from busload_worker.simulation.riding import row_ends_ms

LENGTHS = Lognormal(74, 1.0)
SIZE, PROMPT = 32, 50
ROTATES_S = 0.5
"""An idle worker attends to other partitions after so long."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Times in s."""

    workers: int
    partitions: int
    load: float
    mean_s: float
    p99_s: float
    mean_wait_s: float
    longest_wait_s: float
    seats: float


class Worker:
    """Where one worker looks."""

    def __init__(self, partitions: int, rng: Random) -> None:
        self.turns = Turns(partitions, start=rng.randrange(partitions))
        self.attends: list[int] = []
        self.idle_since = 0.0
        self.event = 0


class Fleet:
    """One run."""

    def __init__(self, workers: int, partitions: int, per_s: float, requests: int, seed: int) -> None:
        self.rng = Random(seed)
        self.queues: list[list[float]] = [[] for _ in range(partitions)]
        self.idle: list[set[Worker]] = [set() for _ in range(partitions)]
        self.at_once = attended(partitions, workers)
        self.per_s, self.left, self.uncounted = per_s, requests, requests // 5
        self.events: list[tuple[float, int, Worker | None]] = []
        self.serial = 0
        self.latencies: list[float] = []
        self.waits: list[float] = []
        self.batches = self.rows = 0
        for _ in range(workers):
            self._free(Worker(partitions, self.rng), 0.0)
        self._push(0.0, None)

    def run(self) -> None:
        """To the last answer; the last ones find no more who come after them."""
        while self.events:
            now, serial, worker = heapq.heappop(self.events)
            if worker is None:
                self._arrive(now)
            elif serial != worker.event:
                continue  # it was woken since
            elif not worker.attends:
                self._free(worker, now)
            elif self.left:
                for number in worker.attends:
                    worker.turns.waiting_since(number, worker.idle_since)
                self._free(worker, now)

    def _arrive(self, now: float) -> None:
        number = self.rng.randrange(len(self.queues))
        self.queues[number].append(now)
        self.left -= 1
        if self.left:
            self._push(now + self.rng.expovariate(self.per_s), None)
        if self.idle[number]:
            woken = self.rng.choice(tuple(self.idle[number]))
            woken.turns.rang(number)
            self._free(woken, now)

    def _free(self, worker: Worker, now: float) -> None:
        """It looks where it is its turn to look, and claims the first batch it finds, or rests."""
        for number in worker.attends:
            self.idle[number].discard(worker)
        worker.attends = []
        for number in worker.turns.order()[: self.at_once]:
            if self.queues[number]:
                return self._depart(worker, number, now)
            worker.turns.waiting_since(number, now)
        worker.attends = worker.turns.order()[: self.at_once]
        worker.idle_since = now
        if any(self.queues[number] for number in worker.attends):
            return self._free(worker, now)
        for number in worker.attends:
            self.idle[number].add(worker)
        self._push(now + ROTATES_S, worker)
        return None

    def _depart(self, worker: Worker, number: int, now: float) -> None:
        queue = self.queues[number]
        came, self.queues[number] = queue[:SIZE], queue[SIZE:]
        worker.turns.claimed(number, came[-1] if self.queues[number] else now)
        lengths = [LENGTHS.draw(self.rng)[1] for _ in came]
        ends = row_ends_ms(waits.GPU, prompt_tokens=PROMPT * len(came), lengths=lengths)
        if self.left and self.uncounted <= 0:
            self.latencies += [now - at + end / 1000 for at, end in zip(came, ends, strict=True)]
            self.waits += [now - at for at in came]
            self.batches += 1
            self.rows += len(came)
        self.uncounted -= len(came)
        self._push(now + max(ends) / 1000, worker)

    def _push(self, at: float, worker: Worker | None) -> None:
        self.serial += 1
        if worker is not None:
            worker.event = self.serial
        heapq.heappush(self.events, (at, self.serial, worker))


def figures(workers: int, partitions: int, load: float, *, requests: int, seed: int = 1) -> Figures:
    """Of one run."""
    per_s = load * workers * waits.capacity_per_s(waits.GPU, LENGTHS, SIZE)
    fleet = Fleet(workers, partitions, per_s, requests, seed)
    fleet.run()
    ordered = sorted(fleet.latencies)
    return Figures(
        workers=workers,
        partitions=partitions,
        load=load,
        mean_s=sum(ordered) / len(ordered),
        p99_s=ordered[int(0.99 * len(ordered))],
        mean_wait_s=sum(fleet.waits) / len(fleet.waits),
        longest_wait_s=max(fleet.waits),
        seats=fleet.rows / fleet.batches / SIZE,
    )


def show(found: Sequence[Figures]) -> None:
    """A table."""
    print(
        f"  {'load':>4} {'workers':>8} {'partitions':>11} {'mean':>9} {'p99':>9} {'mean wait':>10} {'longest':>9} seats"
    )
    for one in found:
        print(
            f"  {one.load:>4} {one.workers:>8,} {one.partitions:>11} {one.mean_s:>7.2f} s {one.p99_s:>7.1f} s "
            f"{one.mean_wait_s:>8.3f} s {one.longest_wait_s:>7.2f} s {one.seats:>5.0%}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small fleets only")
    args = parser.parse_args()
    fleets = [(10, (1, 4, 8))] if args.quick else [(10, (1, 4, 8)), (100, (1, 4, 8, 16)), (1000, (1, 8, 32, 64))]
    found = []
    for load in (0.7, 0.9):
        for workers, counts in fleets:
            for count in counts:
                found.append(figures(workers, count, load, requests=min(300_000, 4000 * workers)))
                show(found[-1:])
    show(found)
    lab.write("partitions", {"figures": [asdict(one) for one in found]})


if __name__ == "__main__":
    main()
