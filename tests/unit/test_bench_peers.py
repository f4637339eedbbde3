"""The peers benchmark's pure parts: what a client saw to figures, answers on the wire, versions, phrases."""

from __future__ import annotations

import pytest
from ops.bench.peers import figures
from ops.bench.peers.install import VERSIONS, parse_versions
from ops.bench.peers.wires import SocketWire, split_http, split_line

SEEN = {"done": 200, "failed": 1, "wall_s": 2.0, "server_cpu_s": 0.4, "client_cpu_s": 0.1, "batches": 10, "items": 200}


def test_a_run_becomes_rates_shares_and_costs() -> None:
    seen = SEEN | {"latencies_ms": [11.0, 12.0, 13.0, 30.0]}
    assert figures.figures(seen, window_ms=10, limit=200.0) == {
        "failed": 1,
        "per_s": 100.0,
        "share_of_limit": 0.5,
        "p50_ms": 13.0,
        "p99_ms": 30.0,
        "p50_over_window_ms": 3.0,
        "mean_batch": 20.0,
        "server_cpu_s_per_1000": pytest.approx(2.0),
        "client_cpu_s_per_1000": pytest.approx(0.5),
    }


def test_a_run_without_an_answer_has_only_its_failures() -> None:
    assert figures.figures(SEEN | {"done": 0}, window_ms=10, limit=None) == {"failed": 1}


def test_the_limit_is_a_full_batch_after_the_other() -> None:
    assert figures.limit_per_s(batch=32, base_ms=20, item_ms=1) == pytest.approx(615.38, abs=0.01)


def test_repeats_become_medians_with_their_range_and_ratios_pair_by_pair() -> None:
    ours, theirs = [{"per_s": 4.0}, {"per_s": 6.0}], [{"per_s": 2.0}, {"per_s": 2.0, "p50_ms": 1.0}]
    assert figures.summary(ours) == {"per_s": {"median": 5.0, "min": 4.0, "max": 6.0}}
    assert "p50_ms" not in figures.summary(theirs)
    assert figures.ratios(ours, theirs, "per_s") == [2.0, 3.0]
    assert figures.ratios(ours, [{"failed": 3.0}], "per_s") == []


def test_an_http_answer_is_whole_only_with_all_of_its_body() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
    assert all(split_http(answer[:cut]) is None for cut in range(len(answer)))
    assert split_http(answer + b"HTTP") == (True, b"hello", b"HTTP")
    refused = b"HTTP/1.1 503 Busy\r\ncontent-length: 4\r\n\r\nbusy"
    assert split_http(refused) == (False, b"503 busy", b"")


def test_a_line_says_in_its_first_byte_how_it_went() -> None:
    assert split_line(b"+text") is None
    assert split_line(b"+text\n-") == (True, b"text", b"-")
    assert split_line(b"-no\n") == (False, b"no", b"")


@pytest.mark.parametrize("style", ["mosec", "litserve", "bentoml"])
def test_a_request_says_the_length_of_its_body(style: str) -> None:
    head, _, body = SocketWire(style, "127.0.0.1:80").message("some prompt").partition(b"\r\n\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    assert b"some prompt" in body


def test_every_peer_has_its_version_pinned() -> None:
    versions = parse_versions(VERSIONS.read_text(encoding="utf-8"))
    assert set(versions) == {"mosec", "ray", "bentoml", "litserve", "celery-batches", "batched"}
    assert all("==" in requirement for wanted in versions.values() for requirement in wanted)
    assert parse_versions("# none\n\na: b==1 c[d]==2 # why\n") == {"a": ["b==1", "c[d]==2"]}


def test_neighbours_are_counted_apart_from_the_bad_row() -> None:
    bad = ("CallFailed: one item is bad", 0.1)
    told = figures.neighbours([bad, ("ok", 0.1), ("ok", 0.1)])
    assert told == "2 of 2 neighbours answered; bad row: error (one item is bad)"
    assert "0 of 1 neighbours answered, others error" in figures.neighbours([bad, bad])


@pytest.mark.parametrize(
    ("answered_s", "running", "told"),
    [
        (3.0, True, "stops, noticed"),
        (5.5, True, "is done for nobody"),
        (5.2, False, "stops, noticed"),
        (8.2, False, "is done for nobody"),
    ],
)
def test_the_next_answer_tells_whether_work_for_nobody_was_done(answered_s: float, running: bool, told: str) -> None:
    left_s = 0.5 if running else 0.8
    assert figures.leaving(answered_s, run_s=3.0, left_s=left_s, running=running) == told


def test_what_callers_of_a_killed_worker_got_is_grouped() -> None:
    told = figures.killed([("ok", 4.0), ("ok", 5.0), ("nothing within 45 s", 45.0)])
    assert told == "2 of 3: answer after 5.0 s; 1 of 3: nothing within 45 s after 45.0 s"
