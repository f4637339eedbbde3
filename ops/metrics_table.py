"""Keeps the tables of docs/metrics.md true.

python ops/metrics_table.py --write   put them between their markers
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from prometheus_client.core import Metric

from busload.metrics.exporter import QueueCollector
from busload.metrics.gateway_meter import GatewayMeter
from busload.metrics.gateway_series import GatewayCollector
from busload.metrics.lookout import Sight
from busload_shared.redis_memory import RedisMemory
from busload_shared.replies import QueueInfo
from busload_worker.metrics import WorkerCollector
from busload_worker.settings import Settings
from busload_worker.vitals import Vitals

PAGE = Path(__file__).parents[1] / "docs" / "metrics.md"
QUEUE = "busload:default"
FREE_LABELS = {"queue", "worker", "model", "engine", "engine_version"}
"""Their values are the deployment's: one for each queue or process."""


class _EmptyQueue:
    """A lookout over a queue that holds nothing."""

    def sight(self) -> Sight:
        reply = [b"0", 0, 0, 0, 0, 0, b"", b"", b"", [], []]
        return Sight(RedisMemory(0, 0), {QUEUE: QueueInfo.read(QUEUE, reply, workers=())})


def families() -> dict[str, list[Metric]]:
    """Every family, by who serves it."""
    settings = Settings(engine="fake", queue=QUEUE, worker_name="worker")
    return {
        "worker": list(WorkerCollector(Vitals(), settings).collect()),
        "exporter": list(QueueCollector(_EmptyQueue()).collect()),  # type: ignore[arg-type]
        "gateway": list(GatewayCollector(GatewayMeter(queue=QUEUE)).collect()),
    }


def table(metrics: Iterable[Metric]) -> str:
    """One row for each family."""
    rows = ["| series | type | labels | meaning |", "|---|---|---|---|"]
    for metric in metrics:
        name = metric.name + "_total" if metric.type == "counter" else metric.name
        rows.append(f"| `{name}` | {metric.type} | {_labels(metric)} | {metric.documentation} |")
    return "\n".join(rows)


def _labels(metric: Metric) -> str:
    found: dict[str, dict[str, None]] = {}
    for sample in metric.samples:
        for label, value in sample.labels.items():
            if label != "le":
                found.setdefault(label, {})[value] = None
    cells = []
    for label, values in found.items():
        fixed = "" if label in FREE_LABELS else ": " + " ".join(f"`{value}`" for value in values)
        cells.append(f"`{label}`{fixed}")
    return ", ".join(cells)


def updated(page: str) -> str:
    """The page's text with the tables as they should be."""
    for server, metrics in families().items():
        start, end = f"<!-- {server} -->\n", f"\n<!-- /{server} -->"
        before, found, rest = page.partition(start)
        _, ended, after = rest.partition(end)
        if not found or not ended:
            raise SystemExit(f"{PAGE.name} has no {start.strip()} … {end.strip()}")
        page = f"{before}{start}{table(metrics)}{end}{after}"
    return page


def main() -> None:
    """Write the tables, or print them."""
    if "--write" in sys.argv[1:]:
        PAGE.write_text(updated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        print("\n\n".join(table(metrics) for metrics in families().values()))


if __name__ == "__main__":
    main()
