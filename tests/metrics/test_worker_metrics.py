"""A worker's series: all there from the start, each moved by what it tells of, and served without a word to Redis."""

from __future__ import annotations

import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from tests.metrics.journeys import JOURNEYS, Journey
from tests.metrics.scraping import Series, read, scrape
from tests.waiting import wait_until
from tests.worker.conftest import Depot
from tests.worker_process import WorkerProcess

from busload_shared.element import Element
from busload_shared.errors import SettingsInvalid
from busload_shared.metrics.histogram import Histogram
from busload_shared.replies import Claim, Seat
from busload_shared.result import Result, ResultError
from busload_worker.answers import _to_json
from busload_worker.curve_fit import CurveFit
from busload_worker.metrics import registry_of
from busload_worker.metrics_endpoint import metrics_endpoint
from busload_worker.metrics_meter import Meter, code_in
from busload_worker.settings import Settings
from busload_worker.vitals import Vitals
from busload_worker.worker import Worker

FROM_THE_START = {
    "busload_worker_info": 1.0,
    "busload_worker_state{starting}": 1.0,
}
"""What is not 0 before anything happens, besides the time that the engine is not up."""


def fresh() -> Series:
    return scrape(registry_of(Vitals(), Settings(engine="fake")))


def test_every_series_is_there_at_0_from_the_start() -> None:
    at_first = fresh()
    assert at_first.pop("busload_worker_engine_seconds_total{down}") < 1
    assert {name: value for name, value in at_first.items() if value} == FROM_THE_START


@pytest.mark.parametrize(("journey", "series"), JOURNEYS, ids=lambda part: getattr(part, "__name__", ""))
async def test_each_journey_moves_its_series_and_adds_none(depot: Depot, journey: Journey, series: set[str]) -> None:
    at_first, moved, watched = fresh(), set(), []

    def watch(worker: Worker) -> None:
        watched.append(registry_of(worker.vitals, worker._settings))
        look()

    def look() -> None:
        for name, value in scrape(watched[-1]).items():
            if value != at_first[name]:
                moved.add(name)

    async def all_moved() -> bool:
        look()
        return series <= moved

    await journey(depot, watch)
    await wait_until(all_moved, what=f"all of {sorted(series)} have moved")


def test_every_series_is_moved_by_a_journey() -> None:
    always = {"busload_worker_info"}
    assert set(fresh()) - set.union(*(series for _, series in JOURNEYS)) == always
    assert set.union(*(series for _, series in JOURNEYS)) - set(fresh()) == set()


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def fetched(port: int) -> Series:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        return read(answer.read().decode())


async def test_a_worker_process_serves_them(depot: Depot, start_process: Callable[..., WorkerProcess]) -> None:
    port = free_port()
    process = await start_process(metrics_port=port).ready()
    assert set(fetched(port)) == set(fresh())
    await depot.push({"id": "a", "prompt": "Hello", "max_tokens": 4})
    await depot.result("a")

    async def counted() -> bool:
        return fetched(port)["busload_worker_results_total{succeeded}"] == 1

    await wait_until(counted, what="the answer is counted")
    assert process.lines("metrics are served")[0]["port"] == port


async def test_a_taken_port_ends_the_start_and_names_the_settings(start_process: Callable[..., WorkerProcess]) -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        port = sock.getsockname()[1]
        process = start_process(metrics_port=port)
        assert await process.ended(timeout_s=40) == 2
    assert f"127.0.0.1 port {port}" in process.log()
    assert "choose others with BUSLOAD_METRICS_HOST and BUSLOAD_METRICS_PORT" in process.log()


def test_nothing_listens_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("no server is wanted")

    monkeypatch.setattr("busload_worker.metrics.serve_metrics", refuse)
    with metrics_endpoint(Vitals(), Settings(engine="fake")):
        pass


def test_without_the_library_the_setting_is_refused_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "busload_worker.metrics", raising=False)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with (
        pytest.raises(SettingsInvalid, match=r'pip install "busload\[worker\]"'),
        metrics_endpoint(Vitals(), Settings(engine="fake", metrics_port=1)),
    ):
        pass


def test_the_code_is_found_whatever_the_id_and_the_metadata_say() -> None:
    trap = 'x"error":{"code":"cancelled"'
    error = ResultError(code="poison", message=trap)
    result = Result(id=trap, status="failed", error=error, metadata={"error": {"code": "expired"}})
    assert code_in(_to_json(result, exclude_none=True)) == "poison"
    assert code_in(b"{}") == ""


def test_a_histogram_counts_up_to_and_with_each_bound() -> None:
    histogram = Histogram((1.0, 2.0))
    histogram.add_all([0.5, 1.0, 1.5, 3.0])
    histogram.add(2.0)
    assert histogram.buckets() == [("1.0", 2.0), ("2.0", 4.0), ("+Inf", 5.0)]
    assert histogram.total == 8.0


def test_r_squared_tells_a_law_from_noise() -> None:
    lawful, noisy = CurveFit(), CurveFit()
    for n in range(1, 65):
        tokens, noise = 1 + 37 * n % 50, 1 + 53 * n % 97
        lawful.add(prompt_tokens=1, longest=tokens, new_tokens=tokens, ran_ms=20.0 + 3 * tokens)
        noisy.add(prompt_tokens=1, longest=tokens, new_tokens=tokens, ran_ms=100.0 + noise)
    assert lawful.r_squared() > 0.999
    assert noisy.r_squared() < 0.3
    assert CurveFit().r_squared() == 0


def test_worker_and_gateway_count_without_the_library() -> None:
    code = (
        "import sys; sys.modules['prometheus_client'] = None; import busload_worker.worker, "
        "busload_worker.metrics_endpoint, busload.metrics.gateway_meter, busload.metrics.settings"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_wait_that_a_forged_or_missing_stamp_tells_counts_as_none() -> None:
    meter = Meter()
    stamps = (0.0, 2e12, 999_000.0)
    seats = [
        Seat(i, Element.parse(b"{}", latest_ms=1e12)._replace(arrival_ms=at), False) for i, at in enumerate(stamps)
    ]
    meter.claimed(Claim("b", 1e6, 1e6, 0, "full", tuple(seats)), most=4)
    meter.claimed(Claim("b", 1e6, 1e6, 0, "full", ()), most=4)
    assert (meter.wait_s.total, meter.wait_s.buckets()[-1], meter.fill.total) == (1.0, ("+Inf", 3.0), 0.75)
