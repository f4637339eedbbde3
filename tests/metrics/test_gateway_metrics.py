"""The gateway's series: all there from the start, each moved by a call, and no more of them whatever callers send."""

from __future__ import annotations

from tests.metrics.scraping import Series, scrape

from busload.metrics.gateway_meter import ANSWERS, ENDPOINTS, REASONS, GatewayMeter
from busload.metrics.gateway_series import registry_of

PATHS = {
    "chat_completions": "/v1/chat/completions",
    "completions": "/v1/completions",
    "models": "/v1/models/some",
    "files": "/v1/files/f-1/content",
    "batches": "/v1/batches",
    "health": "/health/ready",
    "ops": "/ops/dead/redrive",
    "other": "/v1/nonsense/\udcff",
}


def call(meter: GatewayMeter, *, path: str = "/v1/completions", status: int = 200, code: str | None = None) -> None:
    meter.ended(meter.begins(), path=path, status=status, code=code, tokens=3)


def numbers(meter: GatewayMeter) -> Series:
    return scrape(registry_of(meter))


def test_every_series_is_there_at_0_and_is_moved_by_a_call() -> None:
    meter = GatewayMeter(queue="busload:default")
    at_first = numbers(meter)
    assert set(at_first.values()) == {0.0}
    meter.begins()
    for path in PATHS.values():
        call(meter, path=path)
    for status in (101, 302, 404, 503, 0):
        call(meter, status=status)
    for code in (*REASONS[:-1], "of the future"):
        call(meter, status=400, code=code)
    after = numbers(meter)
    assert set(after) == set(at_first)
    assert {name for name, value in after.items() if value == 0} == set()


def test_each_call_counts_once_under_its_endpoint() -> None:
    assert tuple(PATHS) == ENDPOINTS
    for endpoint, path in PATHS.items():
        meter = GatewayMeter(queue="q")
        call(meter, path=path)
        assert numbers(meter)[f"busload_gateway_calls_total{{{endpoint}}}"] == 1
        assert sum(meter.calls.values()) == sum(meter.answers.values()) == 1
    assert ANSWERS[-1] == "none"
